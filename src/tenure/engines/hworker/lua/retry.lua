-- retry: run a job again that has ended or is kept for later, its counters reset.
-- KEYS[1] prefix
-- ARGV session number id changed bytes
-- `changed` 1: it runs with these bytes instead of its own.
-- Returns: 1, or 0 when there is no such job
-- Invariant: it is at the left end of the list, and in no other place.
--@include view answers transition
local session, number, id, changed, data = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local again = transition(session, number)
if again then return again end
local job = records.of(id)
local can = job and job.s ~= 'active' and is_there(job)
if can then
  remove(id, job)
  call('LPUSH', waiting, changed == '1' and data or job.d)
end
return remember(session, number, can and '1' or '0')
