-- unmark: forget marks of ids without an item.
-- KEYS[1] prefix
-- ARGV kind start count
-- `kind`: `unleased` or `stray`.
-- Returns: where the next page begins, or -1 at the end.
-- Invariant: looks at `count` marks. Sending it again is harmless.
--@include begin types
local marks, start, count = key(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
allow_when_full()
check_types()
local ids, gone = call('ZRANGE', marks, start, start + count - 1), {}
for _, id in ipairs(ids) do
  if call('EXISTS', key('item:' .. id)) == 0 then gone[#gone + 1] = id end
end
if #gone > 0 then call('ZREM', marks, unpack(gone)) end
return #ids < count and -1 or start + #ids - #gone
