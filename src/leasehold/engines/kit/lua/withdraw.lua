-- withdraw: hide a worker from the inspector.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV worker
-- Returns: 1
-- Invariant: nothing of the worker is left listed. Sending it again is harmless by nature.
--@include begin presence
local worker = ARGV[1]
hide_worker(worker)
call('ZREM', key('quiet'), worker)
return 1
