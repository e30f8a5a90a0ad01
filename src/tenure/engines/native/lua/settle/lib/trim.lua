-- lib trim: queues keep a limited number of ends.
-- Defines: trim. Redis: reads.
--@include forget

-- Keep at most `max` records of a state. Records that expire first go first; records of jobs that block a lane do not
-- count.
local function trim(state, max)
  if call('ZCARD', key(state)) > max then
    local over = math.min(call('ZCOUNT', key(state), '-inf', '(@NEVER_MS@') - max, 1000)
    if over > 0 then
      forget(state, call('ZRANGEBYSCORE', key(state), '-inf', '(@NEVER_MS@', 'LIMIT', 0, over), true)
    end
  end
end
