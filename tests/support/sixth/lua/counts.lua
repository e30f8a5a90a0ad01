-- counts: how many jobs there are in each state, and the totals.
-- KEYS[1] prefix
-- ARGV
-- Returns: {scheduled, ready, active, 0, 0, failed, broken, cancelled, {field, value...} of `meta`}
-- Invariant: changes nothing.
--@include begin
local function count(state) return call('ZCARD', key(state)) end
return {
  count('scheduled'), count('ready'), count('active'), 0, 0, count('failed'), count('broken'), count('cancelled'),
  call('HGETALL', key('meta')),
}
