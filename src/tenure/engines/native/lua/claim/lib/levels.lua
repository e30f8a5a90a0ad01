-- lib levels: the priorities of which jobs wait, the highest first. `common`: including 0, the priority of `ready` and
-- lanes.
-- Defines: waiting_levels. Redis: reads.
local function waiting_levels(common)
  local found = {}
  for _, level in ipairs(call('ZREVRANGE', key('priorities'), 0, -1)) do
    if common and tonumber(level) < 0 then found[#found + 1], common = 0, false end
    found[#found + 1] = tonumber(level)
  end
  if common then found[#found + 1] = 0 end
  return found
end
