-- lib keys: all keys of a queue are its prefix and a suffix.
local call = redis.call
local prefix = KEYS[1]

local function key(suffix) return prefix .. ':' .. suffix end
