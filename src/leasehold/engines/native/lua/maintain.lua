-- maintain: do what is due, forget records past their time, and bring back parked jobs whose task is offered here.
-- KEYS[1] prefix
-- ARGV config limit meta_ttl_ms task...
-- Returns: {promoted, reclaimed, pruned, unparked, 1 when a limit was reached, {id...} that ended in broken since the last
-- time, because they took down what ran them}
-- Invariant: at most `limit` jobs of each kind are moved. Sending it again is harmless by nature.
--@include begin types config back silence tend
local config, limit, meta_ttl_ms = configure(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
allow_when_full()
check_types()
local time = clock()
local promoted, reclaimed, _, rest = tend(config, time, limit)
local pruned, more = 0, rest or promoted >= limit or reclaimed >= limit
for _, state in ipairs({ 'completed', 'failed', 'broken', 'cancelled' }) do
  local old = call('ZRANGEBYSCORE', key(state), '-inf', time, 'LIMIT', 0, limit)
  forget(state, old, true)
  pruned = pruned + #old
  more = more or #old >= limit
end
for _, unique in ipairs(call('ZRANGEBYSCORE', key('windows'), '-inf', time, 'LIMIT', 0, limit)) do
  uniques.drop_key(unique)
  pruned = pruned + 1
end
local unparked = 0
if call('EXISTS', key('unroutable')) == 1 then
  for i = 4, #ARGV do
    local parked = key('unroutable:' .. ARGV[i])
    -- They were at the front when they were parked: they go back there, in their order. The last ones go first, so
    -- that the next round puts the earlier ones before them.
    local ids = call('ZRANGE', parked, -limit, -1)
    for n = #ids, 1, -1 do
      shapes.place(ids[n], shape_of(call('HGET', key('jobs'), ids[n])), true)
      call('ZREM', parked, ids[n])
    end
    if call('EXISTS', parked) == 0 then
      call('SREM', key('unroutable'), ARGV[i])
    end
    unparked = unparked + #ids
    more = more or #ids >= limit
  end
end
-- The counters of a queue that nobody uses any more are forgotten in the end.
call('PEXPIRE', key('meta'), meta_ttl_ms)
local poison = redis.pcall('LPOP', key('poison'), @POISON_MAX@)
return { promoted, reclaimed, pruned, unparked, more and 1 or 0, poison and not poison.err and poison or {} }
