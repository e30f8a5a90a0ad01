-- extend: let the leases of a worker last for some time from now. A heartbeat sets its own time.
-- KEYS[1] prefix
-- ARGV session number config worker id token ms
-- Returns: 1, or 0 when the lease was lost
-- Invariant: no other lease changes.
--@include begin answers jobs
local session, number, worker, id, token, ms = ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
allow_when_full()
local again = recall(session, number)
if again then return again end
check_types()
local job = job_of(id)
local is_held = job and job.state == 'active' and job.token == token and job.worker == worker
if is_held then
  call('ZADD', key('holders'), 'GT', clock() + ms, worker)
end
return remember(session, number, is_held and '1' or '0')
