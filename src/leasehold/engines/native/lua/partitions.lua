-- partitions: the number of partitions of a queue. `wanted` is stored if the queue has not been used, or if the caller has known
-- this number: then Redis has lost it, and jobs of the caller may be in these partitions.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV queue wanted keep_ms was_known
-- `keep_ms`: list the queue, as `register` does; '' to leave the list alone.
-- Returns: the number of partitions, as text; '' without any
-- Invariant: the number of a queue that has been used stays.
--@include begin
local queue, wanted, keep_ms, was_known = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local stored = call('HGET', key('partitions'), queue)
if not stored and wanted ~= '1' and (was_known == '1' or not call('ZSCORE', key('queues'), queue)) then
  call('HSET', key('partitions'), queue, wanted)
  stored = wanted
end
if keep_ms ~= '' then
  call('ZADD', key('queues'), (clock()), queue)
  call('PEXPIRE', key('queues'), keep_ms)
end
return stored or ''
