-- lib config: the engine's numbers, as one argument: see `as_argument` in config.py for their order.
local function configure(text)
  local lease, grace, outage, amnesty, max_crashes, alone, steady, max_held, tend, completed_max, failed_ttl, failed_max =
    string.match(text, '^' .. string.rep('(%d+) ', 11) .. '(%d+)$')
  return {
    lease = tonumber(lease),
    grace = tonumber(grace),
    outage = tonumber(outage),
    amnesty = tonumber(amnesty),
    max_crashes = tonumber(max_crashes),
    alone = tonumber(alone),
    isolate = math.min(2, tonumber(alone)),
    steady = tonumber(steady),
    max_held = tonumber(max_held),
    tend = tonumber(tend),
    completed_max = tonumber(completed_max),
    failed_ttl = tonumber(failed_ttl),
    failed_max = tonumber(failed_max),
  }
end
