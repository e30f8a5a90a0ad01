-- lib rare: what most calls have no use for, because few queues have it.

-- For a table of functions that are made when the first of them is used (by the function in its first place): most calls
-- have no use for them, and to make a function takes longer than to call one.
local unmade = {
  __index = function(made, name)
    setmetatable(made, nil)
    made[1](made)
    return made[name]
  end,
}

-- Whether there may be anything of what few queues have: lanes, priorities, unique keys, notes, settings, jobs that have
-- crashed too often. Mostly `check_types` finds that there is nothing, and then nobody needs to look again.
local rare = true
