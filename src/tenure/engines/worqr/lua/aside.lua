-- aside: the tasks of a page of the records that wait for a retry or for their task.
-- KEYS[1] prefix
-- ARGV cursor count
-- Returns: {the next cursor, {task...}}
-- Invariant: changes nothing.
--@include jobs
local cursor, count = ARGV[1], ARGV[2]
local following, found = unpack(call('HSCAN', key('jobs'), cursor, 'COUNT', count))
local tasks = {}
for i = 2, #found, 2 do
  local job = cmsgpack.unpack(found[i])
  if job.s == 'scheduled' or job.s == 'unroutable' then tasks[#tasks + 1] = job.d end
end
return { following, tasks }
