-- lib onhold: how long a queue or a lane is on hold: see lib hold.
-- Defines: hold_left. Redis: reads.

-- How long a hold lasts from now on, in ms; 0: no hold. A hold that ends later than any can was written before
-- the clock was set back.
local function hold_left(name, time)
  local left = tonumber(call('ZSCORE', key('holds'), name) or 0) - time
  return left > 0 and left <= @HOLD_MS@ and left or 0
end
