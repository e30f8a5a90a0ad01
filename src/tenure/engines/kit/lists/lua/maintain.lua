-- maintain: do the work that is due, forget old records, and bring back parked jobs of the tasks that are offered here.
-- KEYS[1] prefix
-- ARGV config limit meta_ttl_ms task...
-- Returns: {promoted, reclaimed, pruned, unparked, 1 when a limit was reached, what is left to the caller: see lib
-- wiredue}
-- Invariant: at most `limit` jobs of each kind are moved. Sending it again is harmless.
--@include duework wiredue maintenance
local config, limit, meta_ttl_ms = cjson.decode(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
allow_when_full()
check_types()
local time = clock()
local promoted, reclaimed, _, rest = run_due(config, time, limit)
if newer_layout then return newer_layout_error() end
local returned, left = wiredue.run(config, time, limit)
local pruned, more = maintenance.forget_old(config, time, limit)

-- Parked jobs go to the front, where they were, in their order: the last one first.
local function unpark(task)
  local ids = call('ZRANGE', key('unroutable:' .. task), -limit, -1)
  for n = #ids, 1, -1 do
    local job = records.of(ids[n])
    if job then
      give_back(time, 'RPUSH', ids[n], job, job.d)
    else
      call('ZREM', key('unroutable:' .. task), ids[n])
    end
  end
  held.wake(#ids)
  return #ids
end

local unparked, parked_more = maintenance.unpark(4, limit, unpark)
more = more or parked_more or promoted >= limit or reclaimed >= limit or returned >= limit or rest
-- The counters of an unused queue are forgotten in the end.
call('PEXPIRE', key('meta'), meta_ttl_ms)
return { promoted, reclaimed + returned, pruned, unparked, more and 1 or 0, left }
