-- lib clock: Redis' own clock: milliseconds, and microseconds for tokens.
local function clock()
--@part now
  return time, micros
end
