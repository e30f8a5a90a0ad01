-- lib wiredue: what maintenance leaves to its caller: the removed tasks, whose markers `unmark` removes.
local wiredue = {
  run = function() return 0, call('LLEN', key('removed')) end,
}
