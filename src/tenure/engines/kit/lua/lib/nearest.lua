-- lib nearest: the next of some moments.

-- Milliseconds until the first of these moments, each of which may be nil; -1: there is none.
local function ms_until(time, one, other, third)
  local nearest = math.min(tonumber(one or math.huge), tonumber(other or math.huge), tonumber(third or math.huge))
  return nearest == math.huge and -1 or math.max(0, nearest - time)
end
