-- flow_start: start a chain, or a flow that is a member of another one, with all of its members.
-- KEYS[1] prefix
-- ARGV session number id definition keep_ms on_success on_end
-- definition: as lib flow has it. on_success, on_end: as for flow_open.
-- Returns: `~` if jobs are on their way. Empty: the flow that it is a member of is gone, or is
-- to stop, so that it never comes to be.
-- Invariant: each member of a chain comes to be once, in the step that notes the completion of the one before it.
--@include begin answers flow
local session, number, id, definition, keep, on_success, on_end = unpack(ARGV)
allow_when_full()
local again = recall(session, number)
if again then return again end
local group = string.match(id, '^(.*)%.')
local outer = group and flow.of(group)
if not group or outer and outer.state == 'open' and not outer.reason then
  flow.start(id, definition, keep, group, nil, on_success, on_end)
end
return remember(session, number, sending.has_sent() and '~' or '')
