-- schedule_show: one schedule.
-- KEYS[1] prefix
-- ARGV name
-- Returns: {now, definition, state}; without the last two when there is no such schedule.
-- Invariant: changes nothing.
--@include begin
local name, time = ARGV[1], clock()
local definition, state = call('HGET', key('schedules'), name), call('HGET', key('ticks'), name)
return definition and state and { time, definition, state } or { time }
