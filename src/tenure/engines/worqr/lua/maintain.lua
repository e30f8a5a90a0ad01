-- maintain: do the work that is due, forget old records, and bring back parked jobs of the tasks that are offered here.
-- KEYS[1] prefix
-- ARGV config limit meta_ttl_ms task...
-- Returns: {promoted, reclaimed, pruned, unparked, 1 when a limit was reached, how many removed tasks wait for `unmark`}
-- Invariant: at most `limit` jobs of each kind are moved. Sending it again is harmless.
--@include duework
local config, limit, meta_ttl_ms = cjson.decode(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
allow_when_full()
check_types()
local time = clock()
local promoted, reclaimed, _, rest = run_due(config, time, limit)
if newer_layout then return newer_layout_error() end
local pruned, more = 0, promoted >= limit or reclaimed >= limit or rest
for _, state in ipairs({ 'failed', 'broken', 'cancelled' }) do
  local gone = prune(config, state, time, limit)
  pruned, more = pruned + gone, more or gone >= limit
end

-- Parked jobs go to the front, where they were, in their order: the last one first.
local function unpark(task)
  local pids = call('ZRANGE', key('unroutable:' .. task), -limit, -1)
  for n = #pids, 1, -1 do
    local job = job_of(pids[n])
    if job then
      keep_counts(time, job)
      forget(pids[n], job)
      call('RPUSH', waiting, job.d)
    else
      call('ZREM', key('unroutable:' .. task), pids[n])
    end
  end
  wake(#pids)
  return #pids
end

local unparked = 0
if call('EXISTS', key('unroutable')) == 1 then
  for i = 4, #ARGV do
    local count = unpark(ARGV[i])
    unparked, more = unparked + count, more or count >= limit
  end
end
-- The counters of an unused queue are forgotten in the end.
call('PEXPIRE', key('meta'), meta_ttl_ms)
return { promoted, reclaimed, pruned, unparked, more and 1 or 0, call('LLEN', key('removed')) }
