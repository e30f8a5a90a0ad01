-- counts: how many jobs there are in each state, and the totals. Waiting and active jobs are counted in at most
-- @LANES_MOST@ lanes.
-- KEYS[1] prefix
-- ARGV
-- Returns: {scheduled, ready, active, 0, 0, failed, broken, cancelled, {field, value...} of `meta`}
-- Invariant: changes nothing.
--@include begin jobs
local ready, active = 0, 0
for _, lane in ipairs(call('SRANDMEMBER', wire('active'), @LANES_MOST@)) do
  local waiting, running = lengths_of(lane)
  ready, active = ready + (waiting or 0), active + (running or 0)
end
local function kept(state) return call('ZCARD', key(state)) end
return { 0, ready, active, 0, 0, kept('failed'), kept('broken'), kept('cancelled'), call('HGETALL', key('meta')) }
