-- schedule_due: schedules that are due, each kept from other workers for a while.
-- KEYS[1] prefix
-- ARGV limit keep_ms
-- Returns: {now, ms until the next tick or -1, {name, definition, state}...}
-- Invariant: at most `limit` schedules; those that no worker moves on are due again after `keep_ms`. Sending it again
-- is harmless by nature.
--@include begin schedules
local limit, keep_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
allow_when_full()
schedules.check_types()
local time, found, kept = clock(), {}, {}
local names = call('ZRANGEBYSCORE', key('due'), '-inf', time, 'LIMIT', 0, limit)
local definitions = #names > 0 and call('HMGET', key('schedules'), unpack(names))
local states = #names > 0 and call('HMGET', key('ticks'), unpack(names))
for n, name in ipairs(names) do
  if definitions[n] and states[n] then
    found[#found + 1] = { name, definitions[n], states[n] }
    kept[#kept + 1], kept[#kept + 2] = time + keep_ms, name
  else
    call('ZREM', key('due'), name)
  end
end
if #kept > 0 then call('ZADD', key('due'), unpack(kept)) end
return { time, schedules.wait(time), found }
