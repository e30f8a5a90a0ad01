-- lib hold: a call that cancels or purges many jobs takes several steps, and none of these jobs starts between two of them.
-- `holds`: a lane, or '' for the whole queue, and until when it is held. Each step extends that, so that a caller that dies
-- stops nothing for long.

-- How long the hold lasts from now on, in ms; 0: there is none. One that ends later than any can is of a clock that has
-- been set back since.
local function hold_left(name, time)
  local left = tonumber(call('ZSCORE', key('holds'), name) or 0) - time
  return left > 0 and left <= @HOLD_MS@ and left or 0
end

-- A lane on hold is not in `turns`.
local function change_hold(name, change)
  if name == '' then
    change()
    wake_one()
  else
    shapes.with_lane(name, false, change)
  end
end

-- Begin or extend a hold. Answers whether it has lasted since the last call.
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

-- The holds of callers that have died.
local function end_old_holds(time, limit)
  for _, name in ipairs(call('ZRANGE', key('holds'), 0, limit - 1)) do
    if hold_left(name, time) == 0 then
      end_hold(name)
    end
  end
end
