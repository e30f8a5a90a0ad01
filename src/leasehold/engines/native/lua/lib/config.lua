-- lib config: the engine's numbers, as one argument: see `as_argument` in config.py for their order.
local function configure(text)
  local lease, grace, outage, amnesty, max_crashes, isolate, max_held, tend, overdue, completed_max, failed_ttl, failed_max,
    default_timeout, raw_timeout = string.match(text, '^' .. string.rep('(%d+) ', 13) .. '(%d+)$')
  return {
    lease = tonumber(lease),
    grace = tonumber(grace),
    outage = tonumber(outage),
    amnesty = tonumber(amnesty),
    max_crashes = tonumber(max_crashes),
    isolate = tonumber(isolate),
    max_held = tonumber(max_held),
    tend = tonumber(tend),
    overdue = tonumber(overdue),
    completed_max = tonumber(completed_max),
    failed_ttl = tonumber(failed_ttl),
    failed_max = tonumber(failed_max),
    default_timeout = tonumber(default_timeout),
    raw_timeout = tonumber(raw_timeout),
  }
end
