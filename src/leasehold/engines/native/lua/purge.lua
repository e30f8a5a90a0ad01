-- purge: remove up to `limit` jobs in one state, with all their records.
-- KEYS[1] prefix
-- ARGV session number state limit after
-- Returns: `looked removed after`: how many entries were looked at, 0 at the end, how many jobs were removed, and where the next
-- call goes on.
-- Invariant: nothing of the jobs is left.
--@include begin types remember wake task shape unique notes forget ends ghosts line
local session, number, state, limit, after = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
allow_when_full()
--@include once
check_types()
local ids, looked = {}, 0
if state == 'ready' then
  ids, looked, after = pop_waiting(limit, after)
elseif state == 'scheduled' then
  if after ~= '0' then
    ids, after = some_following(after, limit)
    looked = 1
  end
  if #ids == 0 and after == '0' then
    looked = 0
    ids = some_of(call('ZRANGE', key('scheduled'), 0, limit - 1))
    if #ids > 0 then
      call('ZREM', key('scheduled'), unpack(ids))
    end
  end
elseif state == 'unroutable' then
  local task = call('SRANDMEMBER', key('unroutable'))
  if task then
    looked = 1
    local parked = key('unroutable:' .. task)
    ids = some_of(call('ZRANGE', parked, 0, limit - 1))
    if #ids > 0 then
      call('ZREM', parked, unpack(ids))
    end
    if call('EXISTS', parked) == 0 then
      call('SREM', key('unroutable'), task)
    end
  end
else
  ids = call('ZRANGE', key(state), 0, limit - 1)
  if rare then
    let_go(ids)
  end
  forget(state, ids, false)
  return remember(session, number, #ids .. ' ' .. #ids .. ' ')
end
if #ids > 0 then
  local records = call('HMGET', key('jobs'), unpack(ids))
  call('HDEL', key('jobs'), unpack(ids))
  call('HDEL', key('tries'), unpack(ids))
  for n, id in ipairs(ids) do
    local shape = shape_of(records[n])
    if shape ~= '' then
      shapes.leave_lane(shape, id)
      uniques.free_key(shape, id, true)
    end
    publish_end(id, 'discarded')
  end
end
return remember(session, number, math.max(looked, #ids) .. ' ' .. #ids .. ' ' .. after)
