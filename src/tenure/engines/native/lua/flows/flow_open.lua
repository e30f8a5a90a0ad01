-- flow_open: make a group, or change how many members it has.
-- KEYS[1] prefix
-- ARGV id total keep_ms policy results on_success on_end
-- total: how many members it has so far. policy: wait or cancel. results: 1 if they are kept. on_success, on_end: the
-- calls, as lib flow has them, or empty.
-- Returns: 1, or 0 if the group has ended or is gone.
-- Invariant: a group is open until it is sealed. Sending it again is harmless by nature.
--@include begin flow
local id, total = ARGV[1], ARGV[2]
allow_when_full()
local group = flow.of(id)
if group then
  if group.state ~= 'open' or group.sealed == '1' then return 0 end
  if tonumber(total) > tonumber(group.total) then call('HSET', flow.key(id), 'total', total) end
  return 1
elseif total ~= '0' then
  return 0
end
flow.make(id, ARGV[6], ARGV[7], 'total', '0', 'keep', ARGV[3], 'policy', ARGV[4], 'results', ARGV[5], 'sealed', '0')
return 1
