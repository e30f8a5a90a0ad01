-- lib mapped: the caller of an enqueue knows a map of the queue's partitions: `room` is `<room> <version>`. A part of `enqueue`.
--@include noted
room, map = string.match(ARGV[3], '^(%d+) (%d+)$')
room, map = tonumber(room), tonumber(map)
local refused = outdated(map)
if refused then return refused end
