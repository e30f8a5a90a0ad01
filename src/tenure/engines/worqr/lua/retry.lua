-- retry: run a job that is aside again, its counters reset.
-- KEYS[1] prefix
-- ARGV session number id changed task md5 new_md5
-- `changed` 1: it runs with the bytes `task` instead of its own. `md5` belongs to its own bytes, `new_md5` to `task`.
-- Returns: 1; 0 when there is no such job aside, or it was unique, and another one has the marker now
-- Invariant: it is at the left end of the queue, and no longer aside. One that was unique has its marker.
--@include view uniques answers transition
local session, number, id, changed, task = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5]
local md5, new_md5 = ARGV[6], ARGV[7]
local again = transition(session, number)
if again then return again end
local pid = pid_of(id)
local job = pid and records.of(pid)

-- Take the marker of a task that was unique. False: another one has it.
local function take_marker()
  local unique, wanted = job.m == 1, changed and new_md5 or md5
  if job.s == 'scheduled' or job.s == 'unroutable' then
    unique = wanted ~= md5 and call('EXISTS', marker_key(md5)) == 1
  end
  if not unique then return true end
  if not call('SET', marker_key(wanted), ' ', 'NX') then return false end
  call('ZREM', shared_key('markers'), wanted)
  call('LREM', key('removed'), 0, changed and task or job.d)
  return true
end

local can = job and job.s ~= 'active' and take_marker()
if can then
  local had_not_ended = job.s == 'scheduled' or job.s == 'unroutable'
  forget(pid, job)
  if had_not_ended and changed and new_md5 ~= md5 then free_last(job.d, md5) end
  call('LPUSH', waiting, changed and task or job.d)
  wake(1)
end
return remember(session, number, can and '1' or '0')
