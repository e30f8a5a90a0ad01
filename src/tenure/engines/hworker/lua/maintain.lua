-- maintain: do the work that is due, return what other clients left in progress, forget old records, and bring back parked jobs
-- of the tasks that are offered here.
-- KEYS[1] prefix
-- ARGV config limit meta_ttl_ms task...
-- Returns: {promoted, reclaimed, pruned, unparked, 1 when a limit was reached}
-- Invariant: at most `limit` jobs of each kind are moved. Sending it again is harmless.
--@include duework monitor adopt
local config, limit, meta_ttl_ms = cjson.decode(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
allow_when_full()
check_types()
local time = clock()
local promoted, reclaimed, _, rest = run_due(config, time, limit)
if newer_layout then return newer_layout_error() end
-- A wait whose claim was lost, or another worker's that is just about to claim: both find the job in the list.
for _ = 1, math.min(limit, call('LLEN', taken)) do call('LMOVE', taken, waiting, 'LEFT', 'RIGHT') end
local returned = observe(config, time, limit)
local pruned, more = 0, promoted >= limit or reclaimed >= limit or returned >= limit or rest
adopt(config, time)
for _, state in ipairs({ 'failed', 'broken', 'cancelled' }) do
  local gone = prune(config, state, time, limit)
  pruned, more = pruned + gone, more or gone >= limit
end

-- Parked jobs go to the front, where they were, in their order: the last one first.
local function unpark(task)
  local ids = call('ZRANGE', key('unroutable:' .. task), -limit, -1)
  for n = #ids, 1, -1 do
    local job = job_of(ids[n])
    if job then
      give_back('RPUSH', ids[n], job)
    else
      call('ZREM', key('unroutable:' .. task), ids[n])
    end
  end
  return #ids
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
return { promoted, reclaimed + returned, pruned, unparked, more and 1 or 0 }
