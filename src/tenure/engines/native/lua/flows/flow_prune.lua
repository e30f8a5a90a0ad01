-- flow_prune: remove the records of groups that are forgotten, or over and past their time. Forget the flows in them.
-- KEYS[1] prefix
-- ARGV members groups
-- members: of one group, of which one call removes the records. groups: how many.
-- Returns: 1 if there may be more to remove, else 0.
-- Invariant: a group is in `flows_over` until all of it is removed. Sending it again is harmless by nature.
--@include begin flow
local most, groups = tonumber(ARGV[1]), tonumber(ARGV[2])
allow_when_full()
for _ = 1, groups do
  local id = call('ZRANGEBYSCORE', key('flows_over'), '-inf', clock(), 'LIMIT', 0, 1)[1]
  if not id then return 0 end
  if not flow.prune(id, most) then return 1 end
end
return 1
