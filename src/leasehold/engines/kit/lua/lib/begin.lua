-- lib begin: names for what every operation uses. All keys of a queue are its prefix and a suffix.
local call = redis.call
local prefix = KEYS[1]

local function key(suffix) return prefix .. ':' .. suffix end

-- Redis' own clock: milliseconds, and microseconds for tokens.
local function clock()
  local t = call('TIME')
  local seconds, micros = tonumber(t[1]), tonumber(t[2])
  return seconds * 1000 + math.floor(micros / 1000), seconds * 1000000 + micros
end

-- Tokens exceed the 14 digits that Lua prints of a number by itself.
local function digits(number) return string.format('%.0f', number) end

-- At maxmemory Redis refuses a script whose first write may need memory. Operations that end work must still run, so they
-- first write something that needs none. (The `#!lua` flag for this does not exist on Redis 6.2.)
local function allow_when_full()
  call('DEL', key('full'))
end
