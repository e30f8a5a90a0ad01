-- register: add a queue to the list of queues.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV queue keep_ms
-- Returns: 1
-- Invariant: a queue is listed before its first job is added.
--@include begin
local queue, keep_ms = ARGV[1], ARGV[2]
call('ZADD', key('queues'), (clock()), queue)
call('PEXPIRE', key('queues'), keep_ms)
return 1
