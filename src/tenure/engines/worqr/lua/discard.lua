-- discard: remove a job that is aside, with all that is known of it; or one waiting task with these bytes.
-- KEYS[1] prefix
-- ARGV session number id task md5
-- `id`: a process id or the sha1 of bytes; `task`: the bytes of a task that waits, or ''.
-- Returns: 1, or 0 when there is no such job, or it is held
-- Invariant: nothing of it is left.
--@include view uniques answers transition
local session, number, id, task, md5 = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local again = transition(session, number)
if again then return again end
local pid = pid_of(id)
local job, done = pid and records.of(pid), false
if (not job or job.s ~= 'active') and redis.sha1hex(task) == id and call('LREM', waiting, -1, task) == 1 then
  counts.drop(task) -- as `jobs` shows it: what waits comes before a record of an identical job
  done = true
  free_last(task, md5)
elseif job and job.s ~= 'active' then
  local ended = job.s ~= 'scheduled' and job.s ~= 'unroutable'
  forget(pid, job)
  if not ended then free_last(job.d, md5) end -- the marker of an ended task belongs to another task
  done = true
end
return remember(session, number, done and '1' or '0')
