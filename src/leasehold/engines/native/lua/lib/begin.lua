-- lib begin: names for what every operation uses. All keys of a queue are its prefix and a suffix, so they share a slot.
local call = redis.call
local prefix = KEYS[1]

local function key(suffix)
  return prefix .. ':' .. suffix
end

-- Redis' own clock: milliseconds, and microseconds for tokens.
local function clock()
  local t = call('TIME')
  local seconds, micros = tonumber(t[1]), tonumber(t[2])
  return seconds * 1000 + math.floor(micros / 1000), seconds * 1000000 + micros
end

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

-- Tokens exceed the 14 digits that Lua prints of a number by itself.
local function digits(number)
  return string.format('%.0f', number)
end

-- At maxmemory Redis refuses a script whose first write may need memory. What lets work end must go on, so it writes
-- something that needs none first. (The `#!lua` flag for this does not exist on Redis 6.2.)
local function allow_when_full()
  call('DEL', key('full'))
end
