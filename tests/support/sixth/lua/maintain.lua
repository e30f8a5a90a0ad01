-- maintain: promote what is due, take back the leases of the dead, and prune old records.
-- KEYS[1] prefix
-- ARGV config limit meta_ttl_ms
-- Returns: {promoted, reclaimed, pruned, 1 when there is more}
-- Invariant: at most `limit` of each, but all of a dead worker. Sending it again is harmless by nature.
--@include begin back due silence
local config, limit, meta_ttl_ms = cjson.decode(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
allow_when_full()
check_types()
local time = clock()
local amnesty, before = note_activity(config, time)
if not amnesty then
  return newer_layout_error()
end
local promoted = promote(time, limit)
local reclaimed, again = reap(config, time, amnesty, before, limit)
local pruned = 0
for state in pairs(ENDS) do
  for _, id in ipairs(call('ZRANGE', key(state), 0, limit - pruned - 1)) do
    local job = job_of(id)
    if pruned < limit and job.expires <= time then
      forget(id, job)
      count('trimmed_' .. state)
      pruned = pruned + 1
    end
  end
end
if call('EXISTS', key('jobs')) == 1 then
  call('PERSIST', key('meta'))
else
  call('PEXPIRE', key('meta'), meta_ttl_ms)
end
local more = promoted == limit or pruned == limit or (again and again <= time)
return { promoted, reclaimed, pruned, more and 1 or 0 }
