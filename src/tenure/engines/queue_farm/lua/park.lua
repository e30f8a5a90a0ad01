-- park: close a lane to Tenure workers, or open it again. Original workers do not know of it.
-- KEYS[1] prefix
-- ARGV session number config lane parks
-- Returns: 1, or 0 when it is so already
-- Invariant: a lane that is parked has no turn.
--@include begin answers back transition
local session, number, lane, parks = ARGV[1], ARGV[2], ARGV[4], ARGV[5] == '1'
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
if (call('HEXISTS', key('parked'), lane) == 1) == parks then return remember(session, number, '0') end
if parks then
  call('HSET', key('parked'), lane, (clock()))
  call('ZREM', key('ready'), lane)
else
  call('HDEL', key('parked'), lane)
  if not batch_of(lane) then place(config, clock(), lane) end
end
return remember(session, number, '1')
