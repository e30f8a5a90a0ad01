-- lib lanelimits: how many jobs of a lane may run at a time.
-- Defines: lane_limits. Redis: reads and writes.
--@include lazy turns
local lane_limits = setmetatable({ function(my)
  -- For each queue, whether some lane has a limit other than 1.
  local others = {}
  local function has_others()
    if others[prefix] == nil then others[prefix] = call('EXISTS', key('limits')) == 1 end
    return others[prefix]
  end

  function my.of(lane)
    if is_internal(lane) then return math.huge end
    return has_others() and tonumber(call('HGET', key('limits'), lane) or 1) or 1
  end

  function my.set(lane, limit)
    if limit ~= 1 then
      call('HSET', key('limits'), lane, limit)
      others[prefix] = true
    elseif has_others() then
      call('HDEL', key('limits'), lane)
    end
  end
end }, lazy)
