-- flow_show: groups, the newest first; or one.
-- KEYS[1] prefix
-- ARGV id offset limit
-- id: of one; empty: some of all, from the offset on.
-- Returns: {{id, {field, value...}}...}
-- Invariant: changes nothing.
--@include begin flow
local ids, found = { ARGV[1] }, {}
if ARGV[1] == '' then ids = call('ZREVRANGE', key('flows'), ARGV[2], ARGV[2] + ARGV[3] - 1) end
for _, id in ipairs(ids) do
  local _, fields = flow.of(id)
  if fields then found[#found + 1] = { id, fields } end
end
return found
