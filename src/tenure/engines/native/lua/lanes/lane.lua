-- lane: one lane in numbers.
-- KEYS[1] prefix
-- ARGV lane
-- Returns: {lane, waiting, busy, limit, parked, {id of a job that blocks it...}, state}; parked is '' or when, in ms,
-- and the id of the job that parked it.
-- Invariant: changes nothing.
--@include begin wake lanerow
return lane_row(ARGV[1])
