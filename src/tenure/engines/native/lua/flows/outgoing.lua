-- outgoing: jobs on their way to other queues.
-- KEYS[1] prefix
-- ARGV queues limit
-- Returns: {{queue, {number, id, record, due, rule}...}...}: of some of the queues, the first jobs.
-- Invariant: changes nothing.
--@include begin
local queues, limit, found, bytes = ARGV[1], tonumber(ARGV[2]), {}, @READ_BYTES@
for _, queue in ipairs(call('SRANDMEMBER', key('outs'), queues)) do
  local page = { queue }
  for _, text in ipairs(call('LRANGE', key('out:' .. queue), 0, limit - 1)) do
    bytes = bytes - #text
    if #page > 1 and bytes < 0 then break end
    page[#page + 1] = cmsgpack.unpack(text)
  end
  found[#found + 1] = page
end
return found
