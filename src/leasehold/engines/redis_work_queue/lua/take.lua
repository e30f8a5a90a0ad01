-- take: the short way to lease one item by hand, when there is nothing special about it.
-- KEYS[1] prefix
-- ARGV session number worker lease_ms grace_ms
-- Returns: {data, id, token}; an empty list, the queue is empty; or 0, nothing was done, and `claim` is to be called.
-- Invariant: that of `claim`. Whatever needs more than a look is left to it.
local call, prefix, session, number, worker = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3]
call('DEL', prefix .. ':full') -- so that it runs at the memory limit as well
if tonumber(string.match(call('GET', prefix .. ':done:' .. session) or '0', '^%d+')) >= tonumber(number) then
  return 0
end
local leased = prefix .. ':leased'
-- A wrong type is an error here, before anything has changed.
call('ZINTER', 2, prefix .. ':full', prefix .. ':due')
call('HLEN', leased)
local top = call('HGET', prefix .. ':meta', 'token') or 0
local id = call('LMOVE', prefix .. ':queue', prefix .. ':processing', 'RIGHT', 'LEFT')
if not id then
  return {}
end
local old, new = prefix .. ':leased_by_session:' .. id, prefix .. ':lease:' .. id
local data = call('MGET', prefix .. ':item:' .. id, old, new)
if not data[1] or data[2] or data[3] or call('HEXISTS', leased, id) == 1 then
  call('LMOVE', prefix .. ':processing', prefix .. ':queue', 'LEFT', 'RIGHT')
  return 0
end
data = data[1]
local t = call('TIME')
local time, micros = t[1] * 1000 + math.floor(t[2] / 1000), t[1] * 1000000 + t[2]
local token = string.format('%.0f', math.max(top + 1, micros))
local deadline, lease_ms = string.format('%.0f', time + ARGV[4]), ARGV[4]
local hash = string.sub(redis.sha1hex(#data .. ' ' .. string.sub(data, 1, 65536)), 1, 16)
call('ZADD', prefix .. ':due', deadline + ARGV[5], id)
call('HSET', leased, id, token .. ' ' .. deadline .. ' ' .. time .. ' n ' .. hash .. ' ' .. worker)
call('HSET', prefix .. ':meta', 'token', token)
if call('EXISTS', prefix .. ':stray', prefix .. ':unleased') > 0 then
  call('ZREM', prefix .. ':stray', id)
  call('ZREM', prefix .. ':unleased', id)
end
call('SET', new, token .. ' ' .. worker, 'PX', lease_ms)
call('SET', old, token .. ' ' .. worker, 'PX', lease_ms)
call('SET', prefix .. ':done:' .. session, number .. ' ' .. cmsgpack.pack({ id, token }), 'PX', @ANSWER_TTL_MS@)
return { data, id, token }
