-- lane: one lane.
-- KEYS[1] prefix
-- ARGV lane
-- Returns: {jobs that wait, jobs that are active, how it is parked or ''}
-- Invariant: changes nothing.
--@include begin farm
local lane = ARGV[1]
local waiting, active = lengths_of(lane)
return { waiting or 0, active or 0, call('HGET', key('parked'), lane) or '' }
