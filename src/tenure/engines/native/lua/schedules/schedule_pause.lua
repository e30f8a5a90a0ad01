-- schedule_pause: stop the ticks of a schedule.
-- KEYS[1] prefix
-- ARGV session number name reason
-- Returns: 1, or 0 when there is no such schedule.
-- Invariant: a paused schedule is not in `due`. A second pause changes only the reason.
--@include begin answers schedules
local session, number, name, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local again = recall(session, number)
if again then return again end
schedules.check_types()
if not schedules.owner_of(name) then return remember(session, number, '0') end
local state = schedules.state_of(name)
if state.paused == '0' then state.paused = digits(clock()) end
state.reason = reason
schedules.write({ [name] = state })
return remember(session, number, '1')
