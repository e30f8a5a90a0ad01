-- schedule_resume: let the ticks of a schedule continue.
-- KEYS[1] prefix
-- ARGV session number name digest planned fire
-- planned, fire: the next tick, and when it is due; 0: none. A schedule that is not paused keeps its own.
-- Returns: 1, or 0 when there is no such schedule, or it has another definition.
-- Invariant: a schedule that is not paused and has a next tick is in `due`.
--@include begin answers schedules
local session, number, name, digest = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local again = recall(session, number)
if again then return again end
schedules.check_types()
if schedules.owner_of(name) ~= digest then return remember(session, number, '0') end
local state = schedules.state_of(name)
if state.paused ~= '0' then
  state.planned, state.fire, state.paused, state.reason = ARGV[5], ARGV[6], '0', ''
  schedules.write({ [name] = state })
end
return remember(session, number, '1')
