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
local leased, meta, due = prefix .. ':leased', prefix .. ':meta', prefix .. ':due'
local id = call('LINDEX', prefix .. ':queue', '-1')
if not id then
  -- Nothing else to do: what has lapsed is taken back by `claim`.
  local first = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
  return first and tonumber(first) <= call('TIME')[1] * 1000 and 0 or {}
end
local old, new = prefix .. ':leased_by_session:' .. id, prefix .. ':lease:' .. id
local found = call('MGET', prefix .. ':item:' .. id, old, new)
local data = found[1]
if not data or found[2] or found[3] or call('HEXISTS', leased, id) == 1 then
  return 0
end
-- Numbers are made of the texts of the clock where that can be done: to write a long one is slow.
local t, top = call('TIME'), call('HGET', meta, 'token')
local micros = string.rep('0', 6 - #t[2]) .. t[2]
local time, token = t[1] .. string.sub(micros, 1, 3), t[1] .. micros
if top and (#top > #token or #top == #token and top >= token) then
  token = string.format('%.0f', top + 1)
end
local deadline = time + ARGV[4]
local hash = string.sub(redis.sha1hex(#data .. ' ' .. string.sub(data, 1, 65536)), 1, 16)
local value, line = token .. ' ' .. worker, token .. ' ' .. deadline .. ' ' .. time .. ' n ' .. hash .. ' ' .. worker
call('LMOVE', prefix .. ':queue', prefix .. ':processing', 'RIGHT', 'LEFT')
-- The only key of which the type is not known by now: another program's data there is an error that changes nothing.
local noted = redis.pcall('ZADD', due, deadline + ARGV[5], id)
if type(noted) == 'table' then
  call('LMOVE', prefix .. ':processing', prefix .. ':queue', 'LEFT', 'RIGHT')
  return noted
end
call('HSET', leased, id, line)
call('HSET', meta, 'token', token)
call('SET', new, value, 'PX', ARGV[4])
call('SET', old, value, 'PX', ARGV[4])
call('SET', prefix .. ':done:' .. session, number .. ' ' .. cmsgpack.pack({ id, token }), 'PX', '@ANSWER_TTL_MS@')
return { data, id, token }
