-- destroy: remove a pool with all its jobs.
-- KEYS[1] prefix
-- ARGV session number
-- Returns: 1
-- Invariant: no job of the pool is left. Its workers find with their next heartbeat that they lost theirs.
--@include jobs answers
local session, number = ARGV[1], ARGV[2]
allow_when_full()
local again = recall(session, number)
if again then return again end
for _, worker in ipairs(call('ZRANGE', key('holders'), 0, -1)) do call('DEL', key('held:' .. worker)) end
for _, task in ipairs(call('SMEMBERS', key('unroutable'))) do call('DEL', key('unroutable:' .. task)) end
call('DEL', waiting, progress, failed_list, broken_hash, taken)
for _, suffix in ipairs({
  'jobs', 'holders', 'suspects', 'scheduled', 'failed', 'broken', 'cancelled', 'unroutable', 'attempts', 'observed',
  'observing',
  'moving', 'meta',
}) do
  call('DEL', key(suffix))
end
return remember(session, number, '1')
