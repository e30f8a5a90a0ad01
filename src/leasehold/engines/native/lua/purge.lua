-- purge: remove up to `limit` jobs in one state, with all their records.
-- KEYS[1] prefix
-- ARGV session number state limit after
-- Returns: `more removed after`: 0 at the end, how many jobs were removed, and where the next call goes on. What comes into a
-- place after it was seen to its end may stay there.
-- Invariant: nothing of the jobs is left. Where they wait, the queue is on hold until `release`.
--@include begin types remember ends line hold
local session, number, state, limit, after = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
--@include transition
local ids, more = {}, true
if state == 'ready' or state == 'scheduled' or state == 'unroutable' then hold('', clock()) end
if state == 'ready' then
  ids, more, after = pop_waiting(limit, after)
elseif state == 'scheduled' then
  if after ~= '0' then ids, after = some_following(after, limit) end
  if #ids == 0 and after == '0' then
    local first = call('ZRANGE', key('scheduled'), 0, limit - 1)
    ids = some_of(due_ids(first))
    more = #first == limit or #ids < #first
    if #ids > 0 then call('ZREM', key('scheduled'), unpack(first, 1, #ids)) end
  end
elseif state == 'unroutable' then
  local task = call('SRANDMEMBER', key('unroutable'))
  more = task
  if task then
    local parked = key('unroutable:' .. task)
    ids = some_of(call('ZRANGE', parked, 0, limit - 1))
    if #ids > 0 then call('ZREM', parked, unpack(ids)) end
    if call('EXISTS', parked) == 0 then call('SREM', key('unroutable'), task) end
  end
else
  ids = call('ZRANGE', key(state), 0, limit - 1)
  if uses_features then detach(ids) end
  forget(state, ids, false)
  return remember(session, number, (#ids == limit and 1 or 0) .. ' ' .. #ids .. ' ')
end
if #ids > 0 then
  local records = call('HMGET', key('jobs'), unpack(ids))
  call('HDEL', key('jobs'), unpack(ids))
  call('HDEL', key('tries'), unpack(ids))
  for n, id in ipairs(ids) do
    local shape = shape_of(records[n])
    if shape ~= '' then
      lane_ends.leave(shape, id)
      uniques.free_key(shape, id, true)
    end
    publish_end(id, 'discarded')
  end
end
return remember(session, number, (more and 1 or 0) .. ' ' .. #ids .. ' ' .. after)
