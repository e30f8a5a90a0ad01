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
local time, found = clock(), {}
for _, name in ipairs(call('ZRANGEBYSCORE', key('due'), '-inf', time, 'LIMIT', 0, limit)) do
  local definition, state = call('HGET', key('schedules'), name), call('HGET', key('ticks'), name)
  if definition and state then
    found[#found + 1] = { name, definition, state }
    call('ZADD', key('due'), time + keep_ms, name)
  else
    call('ZREM', key('due'), name)
  end
end
return { time, schedules.wait(time), found }
