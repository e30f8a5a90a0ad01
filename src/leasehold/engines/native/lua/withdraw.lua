-- withdraw: show a worker to the inspector no longer.
-- KEYS[1] prefix of the namespace
-- ARGV worker
-- Returns: 1
-- Invariant: nothing of the worker is left at the namespace. Sending it again is harmless by nature.
--@include begin presence
local worker = ARGV[1]
hide_worker(worker)
call('ZREM', key('quiet'), worker)
return 1
