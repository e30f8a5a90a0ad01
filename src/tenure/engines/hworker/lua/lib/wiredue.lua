-- lib wiredue: what the maintenance of a pool does for jobs of originals.
--@include monitor adopt
local wiredue = {
  -- Return what a wait took, if its claim was lost or has not come yet: both find the job in the list. Return what was
  -- in progress for too long. Returns how many of these, and 0: nothing is left to the caller.
  run = function(config, time, limit)
    for _ = 1, math.min(limit, call('LLEN', taken)) do call('LMOVE', taken, waiting, 'LEFT', 'RIGHT') end
    local returned = observe(config, time, limit)
    adopt(config, time)
    return returned, 0
  end,
}
