-- schedule_remove: remove a schedule. Its jobs stay.
-- KEYS[1] prefix
-- ARGV session number name
-- Returns: 1, or 0 when there is no such schedule.
-- Invariant: nothing of the schedule is left.
--@include begin answers schedules
local session, number, name = ARGV[1], ARGV[2], ARGV[3]
allow_when_full()
local again = recall(session, number)
if again then return again end
schedules.check_types()
local digest, source = schedules.owner_of(name)
if not digest then return remember(session, number, '0') end
schedules.remove(name, digest, source)
return remember(session, number, '1')
