-- lib prune: records that have expired, or are too many.

-- Remove up to `limit` jobs of a state whose records have expired, or that are more than `most`: the oldest first.
-- `drop(id, job)` removes one. Answers how many.
local function prune_records(state, time, limit, most, drop)
  local old = call('ZRANGEBYSCORE', key(state), '-inf', time, 'LIMIT', 0, limit)
  local over = call('ZCARD', key(state)) - #old - most
  if over > 0 and #old < limit then
    for _, id in ipairs(call('ZRANGE', key(state), #old, #old + math.min(over, limit - #old) - 1)) do
      old[#old + 1] = id
    end
  end
  for _, id in ipairs(old) do
    local job = records.of(id)
    if job then drop(id, job) else call('ZREM', key(state), id) end
  end
  if #old > 0 then call('HINCRBY', key('meta'), 'trimmed_' .. state, #old) end
  return #old
end
