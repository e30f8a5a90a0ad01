-- quiet: ask a worker to start no new jobs, or to resume.
-- KEYS[1] prefix
-- ARGV session number worker quiet ttl_ms channel
-- Returns: 1, or 0 when no such worker has shown itself.
-- Invariant: the worker is in `quiet` exactly while it is to be quiet.
--@include begin answers
local session, number, worker, quiet = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
allow_when_full()
local again = recall(session, number)
if again then return again end
if not call('ZSCORE', key('workers'), worker) then return remember(session, number, '0') end
local time = clock()
if quiet == '1' then
  call('ZADD', key('quiet'), time, worker)
  call('PEXPIRE', key('quiet'), ARGV[5])
else
  call('ZREM', key('quiet'), worker)
end
-- The message is a hint: the worker learns it from its next announcement, too.
call('PUBLISH', ARGV[6], '')
return remember(session, number, '1')
