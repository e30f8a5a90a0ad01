-- lib lanerow: a lane as the inspector shows it.
-- Defines: lane_row. Redis: reads.
--@include laneends

-- The last of these states that applies: idle, ready, busy, blocked, parked. See LaneState.
local function lane_state(waiting, busy, limit, blockers, parked)
  if parked ~= '' then
    return 'parked'
  elseif blockers > 0 then
    return 'blocked'
  elseif busy >= limit or busy > 0 and waiting == 0 then
    return 'busy'
  end
  return waiting > 0 and 'ready' or 'idle'
end

local function lane_row(lane)
  local parked = call('HGET', key('parked'), lane) or ''
  local waiting, busy, limit = call('LLEN', key('lane:' .. lane)), lanes.busy_of(lane), lane_limits.of(lane)
  local blockers = lane_ends.blockers(lane)
  return { lane, waiting, busy, limit, parked, blockers, lane_state(waiting, busy, limit, #blockers, parked) }
end
