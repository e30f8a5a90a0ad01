-- add: add one item, by a call of its own or in a pipeline of the caller.
-- KEYS[1] prefix
-- ARGV id data session number [stray_ms] [replace] [session...]
--   number: of the call in its session. The adds of a pipeline have one session, their places in it (1, 2, ...), and no `stray_ms`.
--   replace: '1': a record of this id, which a Leasehold worker keeps, makes way for the item.
--   session...: of pipelines that have been executed. Their answers are removed.
-- Returns: 1 added, 0 there is an item of this id, -1 a Leasehold worker has ended or parked one and keeps it.
-- Invariant: that of `enqueue`; a call that arrives again changes nothing and gets the first answer.
local call, prefix, id, number, stray_ms = redis.call, KEYS[1], ARGV[1], ARGV[4], ARGV[5] or ''
local item, queue, done = prefix .. ':item:' .. id, prefix .. ':queue', prefix .. ':done:' .. ARGV[3]
local seen
if stray_ms ~= '' then
  local last, answer = string.match(call('GET', done) or '', '^(%d+) (.*)$')
  if last == number then return tonumber(answer) end
  if last and tonumber(last) > tonumber(number) then
    return redis.error_reply('LHSTALE this call was given up and a later one has been made')
  end
else
  -- One letter for each place. Before the first there is a zero, and for a call that failed as well.
  seen = call('GETRANGE', done, number - 1, number)
  local letter = string.sub(seen, 2)
  if letter == '-' then return -1 end
  if letter == '0' or letter == '1' then return tonumber(letter) end
end

local function remember(letter, answer)
  if not seen then
    call('SET', done, number .. ' ' .. answer, 'PX', '@DROPIN_ANSWER_MS@')
    return answer
  end
  call('SETRANGE', done, number, letter)
  if seen == '' then call('PEXPIRE', done, '@DROPIN_ANSWER_MS@') end
  for n = 7, #ARGV do call('DEL', prefix .. ':done:' .. ARGV[n]) end
  return answer
end

-- Nothing is left of earlier items, which is the usual case.
local kept, attempts, passing, later = prefix .. ':kept', prefix .. ':attempts', prefix .. ':passing', prefix .. ':later'
local stray, unleased = prefix .. ':stray', prefix .. ':unleased'
local has_notes = call('EXISTS', kept, attempts, passing, later, stray, unleased) > 0
if not has_notes and call('SETNX', item, ARGV[2]) == 1 then
  local pushed = redis.pcall('LPUSH', queue, id)
  if type(pushed) == 'number' then return remember('1', 1) end
  call('DEL', item)
  return pushed
end

local function key(suffix) return prefix .. ':' .. suffix end
--@include types

-- An item that was added again, has no lease and was in no list at two looks, a time apart: its producer died half-way. The
-- lists are searched at the second look.
local function adopt()
  local leases, t = call('MGET', key('lease:' .. id), key('leased_by_session:' .. id)), call('TIME')
  if leases[1] or leases[2] then return end
  local time, grace = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(stray_ms)
  local mark = tonumber(call('ZSCORE', stray, id) or nil)
  local since = mark and math.floor(mark)
  if not since or since > time or time - since >= grace + @CALLERS_MARK_MS@ then
    call('ZREMRANGEBYSCORE', stray, '-inf', time - grace - @CALLERS_MARK_MS@)
    -- A fraction: it may be in a list, see `unlisted`.
    if call('ZCARD', stray) < @MARKS_MAX@ then call('ZADD', stray, time + 0.5, id) end
  elseif time - since >= grace then
    if not call('LPOS', queue, id) and not call('LPOS', key('processing'), id) then call('LPUSH', queue, id) end
    call('ZREM', stray, id)
  end
end

-- The sorted set of a record of this id, and the task that a parked one waits for.
local function place_of_record()
  local ended = call('HGET', key('ended'), id) or ''
  local state, task = string.match(ended, '^%S*'), string.match(ended, '^unroutable %d+ %d+ %d+ %d+ %d+ %d+ ([^\n]*)')
  return key(task and 'unroutable:' .. task or state), task
end

local function remove_record(place, task)
  call('ZREM', place, id)
  if task and call('EXISTS', place) == 0 then call('SREM', key('unroutable'), task) end
  call('HDEL', kept, id)
  call('HDEL', key('ended'), id)
end

-- Forget what is left of an earlier item of this id, which another client has completed.
local function forget_earlier()
  call('HDEL', attempts, id)
  call('HDEL', passing, id)
  call('ZREM', stray, id)
  call('ZREM', unleased, id)
  if call('ZREM', later, id) == 0 then return end
  -- It waited for a retry.
  call('LREM', key('processing'), '0', id)
  local old, new = key('leased_by_session:' .. id), key('lease:' .. id)
  for _, lease in ipairs(call('MGET', old, new)) do
    if lease and string.sub(lease, 1, 1) ~= '~' then return end -- of another client
  end
  call('DEL', old, new)
end

local is_kept, place, task = false, nil, nil
if has_notes then
  check_types()
  is_kept = call('HEXISTS', kept, id) == 1
end
if is_kept then
  if ARGV[6] ~= '1' and call('EXISTS', item) == 0 then return remember('-', -1) end
  place, task = place_of_record()
  call('ZCARD', place) -- of the right type, before anything has changed
end
if not has_notes or call('SETNX', item, ARGV[2]) == 0 then
  if not seen then adopt() end
  return remember('0', 0)
end
forget_earlier()
if is_kept then remove_record(place, task) end
call('LPUSH', queue, id)
return remember('1', 1)
