-- lib config: the engine's numbers, as one argument: see `as_argument` in config.py for their order.
local function configure(text)
  local lease, grace, outage, amnesty, max_crashes, alone, steady, failed_ttl, failed_max, wire, stray =
    string.match(text, '^' .. string.rep('(%d+) ', 10) .. '(%d+)$')
  return {
    lease = tonumber(lease),
    grace = tonumber(grace),
    outage = tonumber(outage),
    amnesty = tonumber(amnesty),
    max_crashes = tonumber(max_crashes),
    alone = tonumber(alone),
    isolate = math.min(2, tonumber(alone)),
    steady = tonumber(steady),
    failed_ttl = tonumber(failed_ttl),
    failed_max = tonumber(failed_max),
    wire = tonumber(wire),
    stray = tonumber(stray),
  }
end
