-- flow_grow: give numbers to members of a group that are to come.
-- KEYS[1] prefix
-- ARGV session number id count queue...
-- queue: queues of these members.
-- Returns: the first of the numbers; empty if the group takes no members: it has ended, or is sealed or gone.
-- Invariant: no two members have one number.
--@include begin answers flow
local session, number, id, count = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
allow_when_full()
local again = recall(session, number)
if again then return again end
local group = flow.of(id)
if not group or group.state ~= 'open' or group.sealed == '1' then return remember(session, number, '') end
call('HSET', flow.key(id), 'total', group.total + count, 'grown', digits((clock())))
if #ARGV > 4 then call('SADD', flow.key(id, ':queues'), unpack(ARGV, 5)) end
return remember(session, number, group.total)
