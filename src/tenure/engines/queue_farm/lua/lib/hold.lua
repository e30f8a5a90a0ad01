-- lib hold: nothing is claimed while the queue is paused, or while jobs are purged.
local function is_held_back(time)
  local meta = call('HMGET', key('meta'), 'paused', 'hold')
  local till = tonumber(meta[2] or 0)
  return meta[1] and true or till > time and till <= time + @HOLD_MS@
end
