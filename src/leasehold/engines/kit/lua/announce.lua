-- announce: show a worker to the inspector for a while, and keep its queues listed.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV worker text ttl_ms keep_ms queue...
-- Returns: 1 when the worker is to be quiet, else 0
-- Invariant: the next announcement removes entries that are past their time.
--@include begin presence
local worker, text, ttl_ms, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
allow_when_full()
local time = clock()
show_worker(time, worker, text, ttl_ms, keep_ms, 5)
call('ZREMRANGEBYSCORE', key('quiet'), '-inf', time - keep_ms)
return call('ZSCORE', key('quiet'), worker) and 1 or 0
