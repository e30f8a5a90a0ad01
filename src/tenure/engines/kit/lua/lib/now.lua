-- lib now: the time of this call by Redis' own clock: milliseconds, and microseconds for tokens.
local now = call('TIME')
local seconds, fraction = tonumber(now[1]), tonumber(now[2])
local time, micros = seconds * 1000 + math.floor(fraction / 1000), seconds * 1000000 + fraction
