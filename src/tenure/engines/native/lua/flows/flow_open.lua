-- flow_open: make a group. Its members come later, through flow_grow.
-- KEYS[1] prefix
-- ARGV id keep_ms policy results on_success on_end open_ms
-- policy: wait or cancel. results: 1 if they are kept. on_success, on_end: definitions, as lib flow has them, or empty.
-- open_ms: after which the group is cancelled if it is not sealed by then.
-- Returns: 1.
-- Invariant: a group is open until it is sealed. Sending it again is harmless by nature.
--@include begin flow
local id, keep, policy, results, on_success, on_end, open_ms = unpack(ARGV)
allow_when_full()
if flow.of(id) then return 1 end
flow.make(id, on_success, on_end, 'total', '0', 'keep', keep, 'policy', policy, 'results', results, 'sealed', '0')
call('ZADD', key('flows_unsealed'), clock() + open_ms, id)
return 1
