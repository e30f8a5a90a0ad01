-- retry: run a job that is aside again, its counters reset.
-- KEYS[1] prefix
-- ARGV session number id changed task
-- `changed` 1: it runs with the bytes `task` instead of its own.
-- Returns: 1, or 0 when there is no such job aside
-- Invariant: it is at the left end of the queue, and no longer aside.
--@include view remember
local session, number, id, changed, task = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
--@include transition
local pid = pid_of(id)
local job = pid and job_of(pid)
local can = job and job.s ~= 'active'
if can then
  forget(pid, job)
  call('LPUSH', waiting, changed == '1' and task or job.d)
  wake(1)
end
return remember(session, number, can and '1' or '0')
