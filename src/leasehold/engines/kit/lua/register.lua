-- register: list a queue among those that there are.
-- KEYS[1] prefix of what belongs to no queue
-- ARGV queue keep_ms
-- Returns: 1
-- Invariant: a queue is listed before its first job is added.
--@include begin
local queue, keep_ms = ARGV[1], ARGV[2]
call('ZADD', key('queues'), (clock()), queue)
call('PEXPIRE', key('queues'), keep_ms)
return 1
