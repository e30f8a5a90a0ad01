-- lib lazy: features that few queues use. Creating a function takes longer than calling one, so the functions of these
-- features are created when a call first uses one of them.
-- Needs: KEYS. Defines: gates, has_limits, has_places, lazy, limited, limits, make_limits, open_lanes, passes, places,
-- rates, reservations, shapes, shared_key, starts, use_limits, uses_features. Redis: reads.

-- The metatable of a table with functions as entries that add the other functions. Each adds functions for one purpose;
-- they are called one after the other until the function that is asked for is there.
local lazy = {
  __index = function(made, name)
    local stage = table.remove(made, 1)
    if #made == 0 then setmetatable(made, nil) end
    stage(made)
    return made[name]
  end,
}

-- Whether the queue may use lanes, priorities, unique keys, notes, settings, holds or isolation. `check_types` finds
-- out.
local uses_features = true

-- The key of something of limits or shares: these hold for all queues of the namespace. On a cluster they hold for one
-- queue, and KEYS[2] has the beginning of their keys, which is in its slot.
local function shared_key(suffix)
  return (KEYS[2] or '{' .. string.match(prefix, '^{([^:}]*)') .. '}') .. ':' .. suffix
end

-- Whether jobs of the queue may have limits: `meta.limited`. `check_types` finds out as well. The libs of limits are
-- made when a call first learns that there are some: see lib limiting. `known`: what the caller has read.
local limited, make_limits = nil, nil
local shapes, gates, limits, rates, open_lanes, passes, places, reservations, starts
local function has_limits(known)
  if known ~= nil then limited = known end
  if limited == nil then limited = call('HEXISTS', key('meta'), 'limited') == 1 end
  if limited and make_limits then
    local make = make_limits
    make_limits = nil
    make()
  end
  return limited
end

-- Make the libs of limits for a call that is about a limit, whether or not the queue has jobs with limits.
local function use_limits()
  limited = true
  has_limits()
end

-- Whether the claim of a job with this shape holds places of limits.
local function has_places(shape)
  if not string.find(shape, 'm=', 1, true) or not string.find(' ' .. shape, ' m=', 1, true) then return false end
  use_limits()
  return true
end
