-- withdraw: hide a worker from the inspector.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV worker
-- Returns: 1
-- Invariant: nothing of the worker stays listed. Sending it again is harmless by nature.
--@include begin
local worker = ARGV[1]
call('DEL', key('worker:' .. worker))
call('ZREM', key('workers'), worker)
call('ZREM', key('quiet'), worker)
return 1
