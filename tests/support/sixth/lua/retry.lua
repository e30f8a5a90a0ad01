-- retry: run a job that ended, or that waits for its retry, with its counts reset.
-- KEYS[1] prefix
-- ARGV session number id edited payload
-- Returns: 1, or 0 when there is no such job
-- Invariant: it goes to the end of the queue.
--@include begin answers jobs
local session, number, id = ARGV[1], ARGV[2], ARGV[3]
allow_when_full()
local again = recall(session, number)
if again then return again end
check_types()
local job = job_of(id)
local can = job and (ENDS[job.state] or job.state == 'scheduled')
if can then
  job.failures, job.error, job.ended, job.expires, job.started = 0, nil, nil, nil, nil
  job.payload = ARGV[4] == '1' and ARGV[5] or job.payload
  make_ready(id, job)
end
return remember(session, number, can and '1' or '0')
