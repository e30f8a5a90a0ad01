-- find: look through a page of the queue for a task.
-- KEYS[1] prefix
-- ARGV name start count
-- `name`: the sha1 of its bytes. `start`: how many tasks at the right end were looked at before.
-- Returns: a row as in lib/view; or how many were looked at in all, or -1 at the end.
-- Invariant: changes nothing.
--@include view
local name, start, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local found = call('LRANGE', waiting, -start - count, -start - 1)
for n = #found, 1, -1 do
  if redis.sha1hex(found[n]) == name then return waiting_row(found[n]) end
end
return #found < count and -1 or start + count
