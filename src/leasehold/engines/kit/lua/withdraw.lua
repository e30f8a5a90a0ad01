-- withdraw: show a worker to the inspector no longer.
-- KEYS[1] prefix of what belongs to no queue
-- ARGV worker
-- Returns: 1
-- Invariant: nothing of the worker is left listed. Sending it again is harmless by nature.
--@include begin presence
hide_worker(ARGV[1])
return 1
