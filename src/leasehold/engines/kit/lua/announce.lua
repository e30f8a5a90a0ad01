-- announce: show a worker to the inspector for a while, and keep its queues listed.
-- KEYS[1] prefix of what belongs to no queue
-- ARGV worker text ttl_ms keep_ms queue...
-- Returns: 0, as nobody can ask this worker to be quiet
-- Invariant: every entry written here is removed after its time by whoever announces next.
--@include begin presence
local worker, text, ttl_ms, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
allow_when_full()
show_worker(clock(), worker, text, ttl_ms, keep_ms, 5)
return 0
