-- counts: a queue in numbers.
-- KEYS[1] prefix
-- ARGV
-- Returns: {scheduled, ready, active, unroutable, 0 completed, failed, broken, cancelled, {counter, value...}}
-- Invariant: changes nothing.
--@include begin
local unroutable = 0
for _, task in ipairs(call('SMEMBERS', key('unroutable'))) do
  unroutable = unroutable + call('ZCARD', key('unroutable:' .. task))
end
local later = call('ZCARD', key('later'))
-- The items of a migration that was interrupted wait until it is run again: a header, then a row of each.
local moving = math.max(0, call('LLEN', key('meta:moving')) - 1)
return {
  later,
  call('LLEN', key('queue')) + call('LLEN', key('taken')) + moving,
  math.max(0, call('LLEN', key('processing')) - later),
  unroutable,
  0,
  call('ZCARD', key('failed')),
  call('ZCARD', key('broken')),
  call('ZCARD', key('cancelled')),
  call('HGETALL', key('meta')),
}
