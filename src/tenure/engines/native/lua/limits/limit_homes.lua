-- limit_homes: note which queue of a cluster has a limit.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV known start queue
-- known: how many notes the caller knows of. start: how names of the limit begin; empty: only read.
-- Returns: {1 if the caller knows all others, {}}; else {0, {start, queue, start, queue...}}, all notes.
-- Invariant: a note is added only by a caller that knows all others, and is never changed. So limits with names that
-- may meet belong to one queue.
--@include begin
local known, start, queue = tonumber(ARGV[1]), ARGV[2], ARGV[3]
if call('HLEN', key('homes')) ~= known then return { 0, call('HGETALL', key('homes')) } end
if start ~= '' then call('HSET', key('homes'), start, queue) end
return { 1, {} }
