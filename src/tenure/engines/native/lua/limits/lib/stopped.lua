-- lib stopped: why a ready job waits at a gate.
-- Defines: stop_of. Redis: reads.
--@include shape

-- The limit with the gate at which the lane of a job waits: `<name> <places taken> <the moment from which on a job may
-- start, or 0>`; '' for none.
local function stop_of(record)
  local shape = shape_of(record)
  local lane = shape ~= '' and shapes.lane_of(shape)
  local name = lane and has_limits() and call('HGET', key('gated'), lane)
  if not name then return '' end
  local taken = call('SCARD', shared_key('places:' .. name))
  return name .. ' ' .. taken .. ' ' .. (call('ZSCORE', key('moments'), name) or '0')
end
