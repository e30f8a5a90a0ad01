-- close_lanes: close lanes until what is before them has arrived from another server, or open them.
-- KEYS[1] prefix
-- ARGV session number (lane parked)...
-- parked: - closes the lane; else it opens it: '', or the text that `parked` had of it at the other server.
-- Returns: 1
-- Invariant: a lane that users or failures parked stays as it is. Workers claim nothing of a closed lane.
--@include begin types answers find ends rows transition
local session, number = ARGV[1], ARGV[2]
local again = transition(session, number)
if again then return again end
local time = clock()
for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '-' then
    rows.close(ARGV[i], time)
  else
    rows.open(ARGV[i], ARGV[i + 1])
  end
end
return remember(session, number, '1')
