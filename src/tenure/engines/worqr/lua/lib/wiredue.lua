-- lib wiredue: what maintenance leaves to its caller: the removed tasks; `unmark` removes their markers.
local wiredue = {
  run = function() return 0, call('LLEN', key('removed')) end,
}
