-- extend: let the leases of a worker last for some time from now. A heartbeat sets its own time.
-- KEYS[1] prefix
-- ARGV session number config worker id token ms
-- Returns: 1, or 0 when the lease was lost
-- Invariant: no lease becomes shorter. For originals the job has just started.
--@include back answers transition
local session, number, worker, id, token, ms = ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local job = records.of(id)
local time, micros = clock()
local is_held = job and job.s == 'active' and job.w == worker and digits(job.n) == token and is_still_held(id, job)
if is_held then
  call('ZADD', key('holders'), 'GT', time + ms, worker)
  held.prolong(id, job, micros)
  held.show_worker(worker, time, ms + config.grace)
end
return remember(session, number, is_held and '1' or '0')
