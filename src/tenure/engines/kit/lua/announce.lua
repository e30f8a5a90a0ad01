-- announce: show a worker to the inspector for a while, and keep its queues listed.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV worker text ttl_ms keep_ms queue...
-- Returns: 1 when the worker is to be quiet, else 0
-- Invariant: the next announcement removes entries that are past their time.
--@include begin
local worker, text, ttl_ms, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
allow_when_full()
local time = clock()
call('SET', key('worker:' .. worker), text, 'PX', ttl_ms)
call('ZADD', key('workers'), time, worker)
call('ZREMRANGEBYSCORE', key('workers'), '-inf', time - ttl_ms)
for i = 5, #ARGV do call('ZADD', key('queues'), time, ARGV[i]) end
call('ZREMRANGEBYSCORE', key('queues'), '-inf', time - keep_ms)
call('ZREMRANGEBYSCORE', key('quiet'), '-inf', time - keep_ms)
call('PEXPIRE', key('workers'), keep_ms)
call('PEXPIRE', key('queues'), keep_ms)
return call('ZSCORE', key('quiet'), worker) and 1 or 0
