-- flow_chain: make a chain, and enqueue its first member.
-- KEYS[1] prefix
-- ARGV session number id keep_ms on_success on_end step...
-- on_success, on_end: as for flow_open. step: the members in their order, each as lib flow has calls.
-- Returns: `~`: jobs are on their way.
-- Invariant: a member comes to be once, in the step that notes the completion of the one before it.
--@include begin answers flow
local session, number, id = ARGV[1], ARGV[2], ARGV[3]
allow_when_full()
local again = recall(session, number)
if again then return again end
local steps = { unpack(ARGV, 7) }
flow.make(id, ARGV[5], ARGV[6], 'total', #steps, 'keep', ARGV[4], 'policy', 'wait', 'results', '1', 'sealed', '1',
  'chain', '1')
for n, step in ipairs(steps) do
  if n > 1 then call('HSET', flow.key(id, ':next'), n - 1, step) end
  call('SADD', flow.key(id, ':queues'), cmsgpack.unpack(step)[1])
end
sending.send({ cmsgpack.unpack(steps[1]) })
return remember(session, number, '~')
