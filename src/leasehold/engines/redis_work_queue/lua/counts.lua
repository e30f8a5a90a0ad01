-- counts: a queue in numbers.
-- KEYS[1] prefix
-- ARGV
-- Returns: {ready, scheduled, active, unroutable, failed, broken, cancelled, {counter, value...}, '' or the worker that
-- takes nothing else for now, see lib/company}
-- Invariant: changes nothing.
--@include begin company
local unroutable = 0
for _, task in ipairs(call('SMEMBERS', key('unroutable'))) do
  unroutable = unroutable + call('ZCARD', key('unroutable:' .. task))
end
local later = call('ZCARD', key('later'))
return {
  call('LLEN', key('queue')),
  later,
  math.max(0, call('LLEN', key('processing')) - later),
  unroutable,
  call('ZCARD', key('failed')),
  call('ZCARD', key('broken')),
  call('ZCARD', key('cancelled')),
  call('HGETALL', key('meta')),
  kept_busy(clock()),
}
