-- take: the short way to lease one item by hand, when there is nothing special about it.
-- KEYS[1] prefix
-- ARGV session number worker lease_ms grace_ms
--   number: of the call in its session, ten digits, so that the texts sort as the numbers do.
-- Returns: {data, id, token}, and how often leases of the item have expired, if any has; an empty list, the queue is
-- empty; or 0, nothing was done, and `claim` is to be called.
-- Invariant: the same as in `claim`. All special cases are left to it.
local call, prefix, number, worker = redis.call, KEYS[1], ARGV[2], ARGV[3]
local done = prefix .. ':done:' .. ARGV[1]
local before = call('GET', done)
if before and string.sub(before, 1, 10) >= number then return 0 end
-- Numbers are made of the texts of the clock where that can be done: to write a long one is slow.
local t = call('TIME')
local micros = t[2]
if #micros < 6 then micros = string.rep('0', 6 - #micros) .. micros end
local time, token = t[1] .. string.sub(micros, 1, 3), t[1] .. micros
local meta, taken, later, unleased = prefix .. ':meta', prefix .. ':taken', prefix .. ':later', prefix .. ':unleased'
local stray, attempts, processing = prefix .. ':stray', prefix .. ':attempts', prefix .. ':processing'
local leased, due, queue = prefix .. ':leased', prefix .. ':due', prefix .. ':queue'
local is_special, top, id = call('EXISTS', meta, taken, later, unleased, stray, attempts) > 0, nil, nil
if is_special then
  local noted = call('HMGET', meta, 'token', 'layout')
  top = noted[1]
  if (noted[2] or '1') ~= '@LAYOUT@' then return 0 end -- `claim` compares the versions
  if top and (#top > #token or #top == #token and top >= token) then token = string.format('%.0f', top + 1) end
  -- First the id that a wait before this call took, or one that such a claim left: see docs/decisions/0021.
  id = redis.pcall('LMOVE', taken, processing, 'RIGHT', 'LEFT')
end
id = id or redis.pcall('LMOVE', queue, processing, 'RIGHT', 'LEFT')
if type(id) == 'table' then return 0 end -- `claim` runs at the memory limit as well, and names a key of another type
if not id then
  -- Expired leases, due retries and jobs of dead workers come back with `claim`.
  for _, times in ipairs({ due, later, prefix .. ':holders' }) do
    local first = call('ZRANGE', times, 0, 0, 'WITHSCORES')[2]
    if first and tonumber(first) <= tonumber(time) then return 0 end
  end
  if before then call('DEL', done) end
  return {}
end
-- A special case after this line first returns the item to the queue.
local function back(answer)
  call('LMOVE', processing, queue, 'LEFT', 'RIGHT')
  return answer
end
local old, new = prefix .. ':leased_by_session:' .. id, prefix .. ':lease:' .. id
--@include hash
local found, tries = call('MGET', prefix .. ':item:' .. id, old, new), nil
local data = found[1]
if not data or found[2] or found[3] then return back(0) end
if is_special and call('EXISTS', later, unleased, stray, attempts) > 0 then
  local first = redis.pcall('ZRANGE', later, 0, 0, 'WITHSCORES')
  if first.err or first[2] and tonumber(first[2]) <= tonumber(time) then
    return back(first.err and first or 0) -- one is to be tried again, which `claim` sees to
  end
  tries = redis.pcall('HGET', attempts, id)
  if type(tries) == 'table' then return back(tries) end
  for _, marks in ipairs({ later, unleased, stray }) do
    local forgot = redis.pcall('ZREM', marks, id)
    if type(forgot) == 'table' then return back(forgot) end
  end
end
local hash, deadline = hash_of(data), string.format('%d', time + ARGV[4])
local value = token .. ' ' .. worker
local line = token .. ' ' .. deadline .. ' ' .. time .. ' n ' .. hash .. ' ' .. worker
local noted = redis.pcall('ZADD', due, 'NX', string.format('%d', deadline + ARGV[5]), id)
if noted ~= 1 then return back(noted) end
local fresh = redis.pcall('HSETNX', leased, id, line)
if fresh ~= 1 then
  call('ZREM', due, id)
  return back(fresh)
end
if top then call('HSET', meta, 'token', token) end
call('SET', new, value, 'PX', ARGV[4])
call('SET', old, value, 'PX', ARGV[4])
call('SET', done, number .. ' ' .. cmsgpack.pack({ id, token }), 'PX', '@DROPIN_ANSWER_MS@')
return { data, id, token, tries and string.match(tries, '^%d+ %d+ ' .. hash .. '[^\n]* e(%d+)') or nil }
