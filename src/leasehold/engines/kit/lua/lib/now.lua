-- lib now: the time of this call by Redis' own clock: milliseconds, and microseconds for tokens.
local now = call('TIME')
local time, micros = now[1] * 1000 + math.floor(now[2] / 1000), now[1] * 1000000 + now[2]
