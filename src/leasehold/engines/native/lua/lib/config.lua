-- lib config: the engine's numbers, as one argument: see `config` in engine.py for their order.
local function configure(text)
  local n = {}
  for number in string.gmatch(text, '%d+') do
    n[#n + 1] = tonumber(number)
  end
  return {
    lease = n[1],
    grace = n[2],
    outage = n[3],
    amnesty = n[4],
    max_crashes = n[5],
    isolate = n[6],
    max_held = n[7],
    tend = n[8],
    overdue = n[9],
    completed_max = n[10],
    failed_ttl = n[11],
    failed_max = n[12],
    default_timeout = n[13],
  }
end
