-- counts: how many jobs there are in each state, and the totals.
-- KEYS[1] prefix
-- ARGV
-- Returns: {state, count...}, {field, value...} of `meta`
-- Invariant: changes nothing.
--@include begin
local found = {}
for _, state in ipairs({ 'ready', 'scheduled', 'active', 'failed', 'broken', 'cancelled' }) do
  found[#found + 1] = state
  found[#found + 1] = call('ZCARD', key(state))
end
return { found, call('HGETALL', key('meta')) }
