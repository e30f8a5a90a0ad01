-- discard: remove a job that is not active.
-- KEYS[1] prefix
-- ARGV session number id
-- Returns: 1, or 0 when there is no such job
-- Invariant: nothing of it is left.
--@include begin answers jobs
local session, number, id = ARGV[1], ARGV[2], ARGV[3]
allow_when_full()
local again = recall(session, number)
if again then return again end
check_types()
local job = job_of(id)
local can = job and job.state ~= 'active'
if can then
  forget(id, job)
end
return remember(session, number, can and '1' or '0')
