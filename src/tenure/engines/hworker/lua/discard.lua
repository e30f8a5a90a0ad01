-- discard: remove a job that is not held, with all that is known of it.
-- KEYS[1] prefix
-- ARGV session number id bytes
-- `bytes`: of a job that waits, or ''.
-- Returns: 1, or 0 when there is no such job, or it runs
-- Invariant: nothing of it is left.
--@include view answers transition
local session, number, id, data = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local again = transition(session, number)
if again then return again end
local job, done = records.of(id), false
if job and job.s ~= 'active' and is_there(job) then
  remove(id, job)
  done = true
elseif not job and data ~= '' and name_of(data) == id and call('LREM', waiting, -1, data) == 1 then
  counts.drop(data)
  done = true
end
return remember(session, number, done and '1' or '0')
