-- maintain: do what is due, forget records and holds past their time, and return parked jobs to the queue if their task
-- is here.
-- KEYS[1] prefix
-- ARGV config limit meta_ttl_ms task...
-- Returns: {promoted, reclaimed, pruned, unparked, 1 when a limit was reached, {id...} that ended in broken since the
-- last time, because they took down what ran them, ms until a schedule is due or -1, how many queues jobs are on their
-- way to, the groups of which members are to be cancelled, how many groups are to be removed, the map of partitions if
-- one is noted (lib noted)}
-- Invariant: at most `limit` jobs of each kind are moved. Sending it again is harmless by nature.
--@include begin types back duework large schedules
local config, limit, meta_ttl_ms = cjson.decode(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
allow_when_full()
check_types()
local time = clock()
local promoted, reclaimed, next_ms, rest = run_due(config, time, limit)
if newer_layout then return newer_layout_error() end
local pruned, more = 0, rest or next_ms == 0 or promoted >= limit or reclaimed >= limit
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
for _, id in ipairs(call('ZRANGEBYSCORE', key('flows_unsealed'), '-inf', time, 'LIMIT', 0, limit)) do
  call('HSET', key('flow:' .. id), 'reason', 'it was not sealed in time', 'broken_off', '1')
  call('SADD', key('stopping'), id)
  call('ZREM', key('flows_unsealed'), id)
end
end_old_holds(time, limit)
local unparked = 0
if call('EXISTS', key('unroutable')) == 1 and hold_left('', time) == 0 then
  local most = math.min(limit, @BACK_MOST@)
  for i = 4, #ARGV do
    if unparked >= most then
      more = true
      break
    end
    local parked = key('unroutable:' .. ARGV[i])
    -- They were at the front when they were parked: they go back there, in their order. The last ones go first, so
    -- that the next round puts the earlier ones before them.
    local ids = some_of(call('ZREVRANGE', parked, 0, most - unparked - 1))
    local placed = {}
    for n, id in ipairs(ids) do
      placed[n] = shape_of(call('HGET', key('jobs'), id))
      shapes.check(placed[n])
    end
    for n, id in ipairs(ids) do
      shapes.place(id, placed[n], true)
      call('ZREM', parked, id)
    end
    unparked = unparked + #ids
    if call('EXISTS', parked) == 0 then
      call('SREM', key('unroutable'), ARGV[i])
    else
      more = true
    end
  end
end
if call('EXISTS', key('jobs')) == 0 then
  call('HDEL', key('meta'), 'large')
  if has_limits() and call('EXISTS', key('gated'), key('opened')) == 0 then call('HDEL', key('meta'), 'limited') end
end
-- The counters of an unused queue are forgotten in the end.
call('PEXPIRE', key('meta'), meta_ttl_ms)
local poison = redis.pcall('LPOP', key('poison'), @POISON_MAX@)
poison = poison and not poison.err and poison or {}
return { promoted, reclaimed, pruned, unparked, more and 1 or 0, poison, schedules.wait(time),
  call('SCARD', key('outs')), call('SRANDMEMBER', key('stopping'), 10),
  call('ZCOUNT', key('flows_over'), '-inf', time), call('HGET', key('settings'), 'map') or nil }
