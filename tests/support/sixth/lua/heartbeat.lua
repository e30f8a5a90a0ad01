-- heartbeat: keep the leases of a worker, and take back those of the dead.
-- KEYS[1] prefix
-- ARGV config worker (id token)...
-- Returns: {position of a lease that was lost...}, {{id, token, ms of its claim} that was not asked about...}, ms until
-- something is due or -1
-- Invariant: a worker that sends this in time is never taken for dead. Sending it again is harmless by nature.
--@include begin back due silence orphaned
local config, worker = cjson.decode(ARGV[1]), ARGV[2]
allow_when_full()
check_types()
local time, again, _ = clock(), nil, nil
if call('EXISTS', key('held:' .. worker)) == 1 then
  call('ZADD', key('holders'), time + config.lease, worker)
  call('ZREM', key('suspects'), worker)
end
local amnesty, before = note_activity(config, time, worker)
if amnesty then
  _, again = reap(config, time, amnesty, before, @TEND_LIMIT@)
end
local held = {}
for n, id in ipairs(call('ZRANGE', key('held:' .. worker), 0, -1)) do
  local job = job_of(id)
  held[n] = { id, job.token, tostring(job.started) }
end
local lost, orphaned = compare(time, held)
return { lost, orphaned, until_next(time, again, next_due()) }
