-- rest_limit: let a limit rest, on a cluster for the job of another queue. `settle` does it for a limit of its own
-- queue.
-- KEYS[1] KEYS[2] the beginning of the keys of limits of its queue
-- ARGV name ms
-- Returns: 1
-- Invariant: the limit rests for this time or longer. A call that is sent again changes no more than that.
--@include begin lanes
allow_when_full()
use_limits()
local time, micros = clock()
places.rest(ARGV[1], time, micros, tonumber(ARGV[2]))
return 1
