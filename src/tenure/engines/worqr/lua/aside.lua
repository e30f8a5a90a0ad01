-- aside: the tasks of a page of the records that wait for a retry or for their task; on the first page, also of a
-- migration that has not ended.
-- KEYS[1] prefix
-- ARGV cursor count
-- Returns: {the next cursor, {task...}}
-- Invariant: changes nothing.
--@include jobs page
local cursor, count = ARGV[1], ARGV[2]
local following, found = unpack(call('HSCAN', key('jobs'), cursor, 'COUNT', count))
local tasks = {}
for _, row in ipairs(cursor == '0' and page.rows() or {}) do tasks[#tasks + 1] = row[2] end
for i = 2, #found, 2 do
  local job = cmsgpack.unpack(found[i])
  if job.s == 'scheduled' or job.s == 'unroutable' then tasks[#tasks + 1] = job.d end
end
return { following, tasks }
