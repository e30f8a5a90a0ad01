-- lib lanerow: a lane as those who look see it.
local function lane_row(lane)
  local parked = call('HGET', key('parked'), lane) or ''
  local waiting, busy, limit = call('LLEN', key('lane:' .. lane)), shapes.busy_of(lane), shapes.limit_of(lane)
  return { lane, waiting, busy, limit, parked, shapes.blockers(lane) }
end
