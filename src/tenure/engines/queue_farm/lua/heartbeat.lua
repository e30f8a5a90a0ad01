-- heartbeat: keep the batches of a worker, for original clients too, and take back batches of dead workers.
-- KEYS[1] prefix
-- ARGV config worker (id token)...
-- Returns: {position of a lease that was lost...}, {{id, token, ms of its claim} that was not asked about...}, ms until
-- something is due or -1, {}, 1 when the worker holds something and the queue is paused
-- Invariant: if the worker sends this in time, an original client never finds its batch stalled. Sending it again is
-- harmless.
--@include begin find silence orphaned
local config, worker = cjson.decode(ARGV[1]), ARGV[2]
allow_when_full()
check_types()
local time, again, _ = clock(), nil, nil
for _, leases in ipairs(held_lanes(worker)) do
  local batch = standing(leases)
  if not batch then
    lose(config, time, leases)
  else
    write_fetch(batch, time + config.lease)
  end
end
if call('EXISTS', key('held:' .. worker)) == 1 then
  call('ZADD', key('holders'), time + config.lease, worker)
  call('ZREM', key('suspects'), worker)
else
  retire(worker)
end
local amnesty, before = note_activity(config, time, worker)
if amnesty then
  _, again = reap(config, time, amnesty, before, @TEND_LIMIT@)
end
local held = {}
for _, leases in ipairs(held_lanes(worker)) do
  for _, lease in ipairs(leases) do held[#held + 1] = { lease.id, lease.token, lease.claimed } end
end
local lost, orphaned = compare(time, held)
return { lost, orphaned, until_next(time, again), {}, #held > 0 and call('HEXISTS', key('meta'), 'paused') or 0 }
