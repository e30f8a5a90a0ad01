-- unmark: remove the markers of tasks that were removed.
-- KEYS[1] prefix
-- ARGV session number (md5 task)...
-- Returns: how many are left there
-- Invariant: these tasks are no longer in `removed`. A marker stays while another copy of its task lives.
--@include uniques answers transition
local session, number = ARGV[1], ARGV[2]
local again = transition(session, number)
if again then return again end

-- The record of a task that was cancelled or crashed: a retry takes the marker again.
local function note_marked(data)
  local pid = call('HGET', key('names'), redis.sha1hex(data))
  local job = pid and records.of(pid)
  if job and job.ended then
    job.m = 1
    records.save(pid, job)
  end
end

for i = 3, #ARGV, 2 do
  local md5, task = ARGV[i], ARGV[i + 1]
  if call('LREM', key('removed'), -1, task) == 1 and free_last(task, md5) then note_marked(task) end
end
return remember(session, number, tostring(call('LLEN', key('removed'))))
