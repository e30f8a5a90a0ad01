-- add_totals: add the counters of a partition that is dropped.
-- KEYS[1] prefix
-- ARGV session number (counter value)...
-- Returns: 1
-- Invariant: the counters of a dropped partition are added once.
--@include begin answers
local session, number = ARGV[1], ARGV[2]
allow_when_full()
local again = recall(session, number)
if again then return again end
for i = 3, #ARGV, 2 do call('HINCRBY', key('meta'), ARGV[i], ARGV[i + 1]) end
return remember(session, number, '1')
