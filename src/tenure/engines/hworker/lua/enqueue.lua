-- enqueue: add jobs to the left end of the list.
-- KEYS[1] prefix
-- ARGV session number bytes...
-- Returns: a string of one character a job: 1 added
-- Invariant: all jobs are in the list, in their order.
--@include jobs answers layout
local session, number = ARGV[1], ARGV[2]
local again = recall(session, number)
if again then return again end
check_types()
for i = 3, #ARGV do call('LPUSH', waiting, ARGV[i]) end
note_layout()
return remember(session, number, string.rep('1', #ARGV - 2))
