-- lib hold: cancelling or purging many jobs takes several calls, and none of these jobs starts between two of them.
-- `holds` has lanes, or '' for the whole queue, and until when each is held. Each call extends the hold, so a caller
-- that dies stops the queue only for a short time.
-- Defines: end_hold, end_old_holds, hold. Redis: reads and writes.
--@include lanes onhold

local function change_hold(name, change)
  if name == '' then
    change()
    wake_one()
  else
    lanes.change({ name }, false, change)
  end
end

-- Begin or extend a hold. Returns whether it has lasted since the last call.
local function hold(name, time)
  local lasted = hold_left(name, time) > 0
  local function extend() call('ZADD', key('holds'), time + @HOLD_MS@, name) end
  if lasted then
    extend()
  else
    change_hold(name, extend)
  end
  return lasted
end

local function end_hold(name)
  change_hold(name, function() call('ZREM', key('holds'), name) end)
end

-- End the holds of callers that have died.
local function end_old_holds(time, limit)
  for _, name in ipairs(call('ZRANGE', key('holds'), 0, limit - 1)) do
    if hold_left(name, time) == 0 then end_hold(name) end
  end
end
