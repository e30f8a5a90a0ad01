-- lib lazy: features that few queues use. Creating a function takes longer than calling one, so the functions of these
-- features are created when a call first uses one of them.

-- The metatable of a table whose first entry is a function that adds the other functions.
local lazy = {
  __index = function(made, name)
    setmetatable(made, nil)
    made[1](made)
    return made[name]
  end,
}

-- Whether the queue may use lanes, priorities, unique keys, notes, settings, holds or isolation. `check_types` finds out.
local uses_features = true

-- Whether jobs of the queue may have limits: `meta.limited`. `check_types` finds out as well.
local limited = nil
local function has_limits()
  if limited == nil then limited = call('HEXISTS', key('meta'), 'limited') == 1 end
  return limited
end
