-- maintain: do the work that is due, forget old records, and bring back parked items of the tasks that are offered
-- here.
-- KEYS[1] prefix
-- ARGV config limit meta_ttl_ms deep_ms task...
-- `deep_ms`: how often a deep clean begins; 0 while this worker is at one, so that no other worker begins one.
-- Returns: {promoted, reclaimed, pruned, unparked, 1 when a limit was reached, 1 when it is time for a deep clean}
-- Invariant: at most `limit` items of each kind are moved. Sending it again is harmless.
--@include begin types back duework leftover traces maintenance
local config, limit, meta_ttl_ms, deep_ms = cjson.decode(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
allow_when_full()
check_types()
local time = clock()
local promoted, reclaimed = run_due(config, time, limit)
if newer_layout then return newer_layout_error() end
return_taken()
local pruned, more = maintenance.forget_old(config, time, limit)
more = forget_leftovers() or more or promoted >= limit or reclaimed >= limit

-- Put parked items back to the front, where they were when they were parked, in their order: the last one first. If an
-- item of the same id was added since, the parked one waits for its end.
local function unpark(task)
  local parked = key('unroutable:' .. task)
  local ids, front = call('ZRANGE', parked, -limit, -1), {}
  for n = #ids, 1, -1 do
    local id = ids[n]
    local data = call('HGET', key('kept'), id)
    if data and call('SETNX', key('item:' .. id), data) == 1 then
      local failures, crashes = string.match(call('HGET', key('ended'), id) or '', '^%S+ %d+ %d+ (%d+) (%d+)')
      if failures and failures + crashes > 0 then
        call('HSET', key('attempts'), id, attempts_text(failures, crashes, hash_of(data)))
      end
      front[#front + 1] = id
    end
    if not data or front[#front] == id then
      forget_end('unroutable:' .. task, { id })
    end
  end
  if #front > 0 then call('RPUSH', key('queue'), unpack(front)) end
  if call('EXISTS', parked) == 0 then call('SREM', key('unroutable'), task) end
  return #front
end

local unparked, parked_more = maintenance.unpark(5, limit, unpark)
more = more or parked_more
local since_deep = time - tonumber(call('HGET', key('meta'), 'deep_at') or 0)
local deep = since_deep >= deep_ms or since_deep < 0 -- the clock was set back
if deep then call('HSET', key('meta'), 'deep_at', time) end
-- The counters of an unused queue are forgotten in the end.
call('PEXPIRE', key('meta'), meta_ttl_ms)
return without_traces(config, { promoted, reclaimed, pruned, unparked, more and 1 or 0, deep and 1 or 0 })
