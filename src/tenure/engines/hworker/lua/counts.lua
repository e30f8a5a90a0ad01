-- counts: how many jobs are in each state, and the totals. Jobs of other clients count, too.
-- KEYS[1] prefix
-- ARGV
-- Returns: {scheduled, ready, active, unroutable, 0, failed, broken, cancelled, {field, value...} of `meta`}
-- Invariant: changes nothing.
--@include view
local parked, later = 0, call('ZCARD', key('scheduled'))
for _, task in ipairs(call('SMEMBERS', key('unroutable'))) do
  parked = parked + call('ZCARD', key('unroutable:' .. task))
end
local active = call('HLEN', progress) - call('HEXISTS', progress, PHANTOM) - later
return {
  later, call('LLEN', waiting) + call('LLEN', taken), math.max(0, active), parked, 0, call('LLEN', failed_list),
  call('HLEN', broken_hash),
  call('ZCARD', key('cancelled')), call('HGETALL', key('meta')),
}
