-- withdraw: hide a worker from the inspector and from originals.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV worker
-- Returns: 1
-- Invariant: nothing of the worker stays listed. Sending it again is harmless by nature.
--@include wire
local worker = ARGV[1]
allow_when_full()
disappear(wire_id(worker))
call('DEL', key('worker:' .. worker))
call('ZREM', key('workers'), worker)
return 1
