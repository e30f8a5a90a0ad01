-- announce: show a worker to the inspector for a while, keep its queues listed, and keep its timer for originals.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV worker text ttl_ms keep_ms timer_ms queue...
-- Returns: 1 when the worker is to be quiet, else 0
-- Invariant: originals take the worker for one of theirs that is alive. Sending it again is harmless.
--@include wire
local worker, text, ttl_ms, keep_ms, timer_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local QUEUES_MOST = 1000
allow_when_full()
local time, queues = clock(), {}
for i = 6, math.min(#ARGV, 5 + QUEUES_MOST) do
  queues[#queues + 1] = ARGV[i]
  call('ZADD', key('queues'), time, ARGV[i])
end
appear(worker, time, timer_ms, queues)
remove_silent(time)
call('SET', key('worker:' .. worker), text, 'PX', ttl_ms)
call('ZADD', key('workers'), time, worker)
call('ZREMRANGEBYSCORE', key('workers'), '-inf', time - ttl_ms)
call('ZREMRANGEBYSCORE', key('queues'), '-inf', time - keep_ms)
call('PEXPIRE', key('workers'), keep_ms)
call('PEXPIRE', key('queues'), keep_ms)
return 0
