-- park: park a lane, or resume it.
-- KEYS[1] prefix
-- ARGV session number lane parked map
-- parked: 1, or 0 to resume it; or ?: park it only if something of it is here, as its jobs move to another partition.
-- map: the version of the map of the queue's partitions that the caller knows.
-- Returns: 1, or 0 when it is so already.
-- Invariant: nothing of a parked lane is claimed; its jobs stay where they are.
--@include begin types answers lanes homes noted transition
local session, number, lane, parked = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local again = transition(session, number)
if again then return again end
local outdated_map = outdated(tonumber(ARGV[5]))
if outdated_map then return outdated_map end
if parked == '?' and homes.has_lane(lane) then
  call('HSET', key('mover'), 'dirty', '1') -- what `move` has looked at may have changed
  parked = '1'
end
if parked == '?' or call('HEXISTS', key('parked'), lane) == tonumber(parked) then
  return remember(session, number, '0')
end
local time = clock()
lanes.change({ lane }, false, function()
  if parked == '1' then
    call('HSET', key('parked'), lane, time .. ' ')
  else
    call('HDEL', key('parked'), lane)
  end
end)
return remember(session, number, '1')
