-- lib longroom: reads the long form of `room`. A part of `enqueue`.
-- Needs: ARGV. Sets: each, map, room.
--@include noted
room, map, each = string.match(ARGV[3], '^(%d+) (%d+) ([24])$')
room, map, each = tonumber(room), tonumber(map), tonumber(each)
local refused = outdated(map)
if refused then return refused end
