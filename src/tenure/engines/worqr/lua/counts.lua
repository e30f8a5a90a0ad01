-- counts: how many jobs are in each state, and the totals. Processes of originals count as active.
-- KEYS[1] prefix
-- ARGV
-- Returns: {scheduled, ready, active, unroutable, 0, failed, broken, cancelled, {field, value...} of `meta`}
-- Invariant: changes nothing.
--@include view
local parked = 0
for _, task in ipairs(call('SMEMBERS', key('unroutable'))) do
  parked = parked + call('ZCARD', key('unroutable:' .. task))
end
return {
  call('ZCARD', key('scheduled')), call('LLEN', waiting), call('SCARD', working), parked, 0,
  call('ZCARD', key('failed')),
  call('ZCARD', key('broken')), call('ZCARD', key('cancelled')), call('HGETALL', key('meta')),
}
