-- lib holding: which jobs hold the places of a limit, as an operator sees it.
-- Defines: places_taken, jobs_holding. Redis: reads.

-- Up to HOLDERS_SHOWN places of a limit, as {queue's prefix: {number of a claim: true}}.
local function places_taken(places)
  local taken = {}
  for _, entry in ipairs(redis.pcall('SRANDMEMBER', places, @HOLDERS_SHOWN@)) do
    local queue, token = string.match(entry, '^(%S+) (%d+) ')
    if queue then
      taken[queue] = taken[queue] or {}
      taken[queue][token] = true
    end
  end
  return taken
end

-- The jobs of a queue with these claims, as {id, worker, when it was claimed}, among the first WHY_LOOK claims.
local function jobs_holding(queue, claimed, most)
  local found, looked = {}, 0
  for _, worker in ipairs(call('ZRANGE', queue .. ':holders', 0, @MAX_HOLDERS@ - 1)) do
    local claims = call('HGETALL', queue .. ':held:' .. worker)
    for i = 2, #claims, 2 do
      local token, since = string.match(claims[i], '^(%d+) (%d+)')
      if claimed[token] and #found < most then found[#found + 1] = { claims[i - 1], worker, since } end
    end
    looked = looked + #claims / 2
    if #found == most or looked >= @WHY_LOOK@ then break end
  end
  return found
end
