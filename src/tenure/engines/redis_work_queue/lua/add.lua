-- add: add one item, by a call of its own or in a pipeline of the caller.
-- KEYS[1] prefix
-- ARGV id data session number [stray_ms] [replace] [session...]
--   number: as of `take`. The adds of a pipeline have one session, their places in it (1, 2, ...), and no `stray_ms`.
--   replace: '1': a record of this id, which a Tenure worker keeps, makes way for the item.
--   session...: of pipelines that have been executed. Their answers are removed.
-- Returns: 1 added, 0 there is an item of this id, -1 a Tenure worker has ended or parked one and keeps it.
-- Invariant: the same as in `enqueue`; a call that arrives again changes nothing and gets the first answer.
local call, prefix, id, number, stray_ms = redis.call, KEYS[1], ARGV[1], ARGV[4], ARGV[5] or ''
local item, queue, done = prefix .. ':item:' .. id, prefix .. ':queue', prefix .. ':done:' .. ARGV[3]
local kept, attempts, passing, later = prefix .. ':kept', prefix .. ':attempts', prefix .. ':passing',
  prefix .. ':later'
local stray, unleased = prefix .. ':stray', prefix .. ':unleased'
local seen
if stray_ms == '' then
  -- One letter for each place. Before the first there is a zero, and for a call that failed as well.
  seen = call('GETRANGE', done, number - 1, number)
  local letter = string.sub(seen, 2)
  if letter == '-' then return -1 end
  if letter == '0' or letter == '1' then return tonumber(letter) end
else
  local before = call('GET', done) or ''
  local last = string.sub(before, 1, 10)
  if last == number then return tonumber(string.sub(before, 12)) end
  if last > number then return redis.error_reply('TNSTALE this call was given up and a later one has been made') end
end

-- What is left of earlier items of this id: mostly nothing of any. It is read before anything changes.
local left, record, task, added
if call('EXISTS', kept, attempts, passing, later, stray, unleased) > 0 then
  left = {}
  for _, hash in ipairs({ attempts, passing }) do
    if call('HEXISTS', hash, id) == 1 then left[#left + 1] = { 'HDEL', hash } end
  end
  for _, set in ipairs({ stray, unleased, later }) do
    if call('ZSCORE', set, id) then left[#left + 1] = { 'ZREM', set } end
  end
  call('LLEN', prefix .. ':processing')
  if call('HEXISTS', kept, id) == 1 then
    -- The sorted set of its record, and the task that a parked one waits for.
    local ended = call('HGET', prefix .. ':ended', id) or ''
    task = string.match(ended, '^unroutable %d+ %d+ %d+ %d+ %d+ %d+ ([^\n]*)')
    record = prefix .. ':' .. (task and 'unroutable:' .. task or string.match(ended, '^%S*'))
    call('ZCARD', record)
    call('SCARD', prefix .. ':unroutable')
    if ARGV[6] ~= '1' then added = call('EXISTS', item) - 1 end
  end
end

added = added or call('SETNX', item, ARGV[2])
local pushed = added == 1 and redis.pcall('LPUSH', queue, id)
if type(pushed) == 'table' then
  call('DEL', item)
  return pushed
end
if not seen then
  call('SET', done, number .. (added == 1 and ' 1' or ' ' .. added), 'PX', '@DROPIN_ANSWER_MS@')
else
  call('SETRANGE', done, number, added == -1 and '-' or added)
  if seen == '' then call('PEXPIRE', done, '@DROPIN_ANSWER_MS@') end
  for n = 7, #ARGV do call('DEL', prefix .. ':done:' .. ARGV[n]) end
end
if added == 1 and not left or added == -1 then return added end

--@include begin adopt
if added == 0 then
  if not seen then adopt(id, tonumber(stray_ms)) end
  return 0
end
for _, note in ipairs(left) do
  -- What waited for a retry has a lease of its own. Another client may have taken it over.
  if note[2] == later then
    call('LREM', key('processing'), '0', id)
    local old, new = key('leased_by_session:' .. id), key('lease:' .. id)
    local leases = call('MGET', old, new)
    local is_free = true
    for n = 1, 2 do is_free = is_free and (not leases[n] or string.sub(leases[n], 1, 1) == '~') end
    if is_free then call('DEL', old, new) end
  end
  call(note[1], note[2], id)
end
if record then
  call('ZREM', record, id)
  if task and call('EXISTS', record) == 0 then call('SREM', key('unroutable'), task) end
  call('HDEL', kept, id)
  call('HDEL', key('ended'), id)
end
return 1
