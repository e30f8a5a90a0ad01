-- release: end the hold of a queue or a lane (see lib hold).
-- KEYS[1] prefix
-- ARGV session number lane
-- lane '': the queue.
-- Returns: 1
-- Invariant: what is not on hold may be claimed.
--@include begin types answers hold transition
local session, number, lane = ARGV[1], ARGV[2], ARGV[3]
local again = transition(session, number)
if again then return again end
end_hold(lane)
return remember(session, number, '1')
