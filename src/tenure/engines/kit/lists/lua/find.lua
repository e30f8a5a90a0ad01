-- find: look through a page of the list for a job.
-- KEYS[1] prefix
-- ARGV id start count
-- `start`: how many jobs at the right end were looked at before.
-- Returns: a row as in lib/view; or how many were looked at in all, or -1 at the end.
-- Invariant: changes nothing.
--@include view
local id, start, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local found = call('LRANGE', waiting, -start - count, -start - 1)
for n = #found, 1, -1 do
  local row = name_of(found[n]) == id and waiting_row(found[n])
  if row then return row end
end
return #found < count and -1 or start + count
