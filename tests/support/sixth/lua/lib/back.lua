-- lib back: leases that return to the front of the queue, the earliest claim first.
--@include jobs retire
local function collect(entries, worker)
  local held = call('ZRANGE', key('held:' .. worker), 0, -1, 'WITHSCORES')
  for i = 1, #held, 2 do
    entries[#entries + 1] = { held[i], tonumber(held[i + 1]), worker }
  end
end

local function release_claims(config, time, workers, entries)
  table.sort(entries, function(one, other) return one[2] > other[2] end)
  for _, entry in ipairs(entries) do
    call('ZREM', key('held:' .. entry[3]), entry[1])
    make_ready(entry[1], job_of(entry[1]), true)
  end
  for _, worker in ipairs(workers) do
    retire(worker)
  end
  return #entries, false
end
