-- note_cancel: an original asked to cancel a task, by a message that is kept nowhere: note it for the jobs of this
-- worker.
-- KEYS[1] prefix
-- ARGV worker body task
-- Returns: how many jobs of the worker run this task
-- Invariant: the request stays until the job ends. Sending it again is harmless.
--@include cancels
local worker, body, task = ARGV[1], ARGV[2], ARGV[3]
allow_when_full()
check_types()
local found = 0
for _, pid in ipairs(call('ZRANGE', key('held:' .. worker), 0, -1)) do
  local job = records.of(pid)
  if job and job.s == 'active' and data_of(pid, job) == task then
    found = found + 1
    if not job.x then
      job.x = body
      records.save(pid, job)
    end
  end
end
return found
