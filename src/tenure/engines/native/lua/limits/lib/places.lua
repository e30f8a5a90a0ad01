-- lib places: the places that leases hold at their limits. An entry names its lease, so it can be removed once and no
-- more: by the step that takes the claim out of `held:<worker>`.
-- Needs: digits, limits, open_lanes, rates, shapes, shared_key. Sets: places. Redis: reads and writes.
places = {}
do
  local my = places
  local CHUNK = 20

  local function entries_of(limit, token, last, first)
    local entries = {}
    for n = first or 1, last do entries[#entries + 1] = prefix .. ' ' .. token .. ' ' .. n end
    return entries
  end

  -- Take the places of a job that starts under this token. `used` has the numbers that the code of the latest one gave,
  -- for lists of limits only: with pcall, since another program's data there must not stop a claim.
  function my.take(limit, token, most)
    local count = most and math.min(limit.cost, most) or 1
    call('SADD', shared_key('places:' .. limit.name), unpack(entries_of(limit, token, count)))
    redis.pcall('HSET', shared_key('used'), limit.name, limit.numbers)
    return count
  end

  -- Remove the places of a lease: as many as it has, from the first one on.
  local function remove(limit, token)
    for first = 1, limit.cost, CHUNK do
      local entries = entries_of(limit, token, math.min(limit.cost, first + CHUNK - 1), first)
      if redis.pcall('SREM', shared_key('places:' .. limit.name), unpack(entries)) ~= #entries then return end
    end
  end

  -- Free the places of claims {token, shape} that have ended, and open the gates of their limits.
  function my.free(claims)
    local freed, order = {}, {}
    for _, claim in ipairs(claims) do
      for _, limit in ipairs(limits.of(shapes.word(claim[2], 'm') or '')) do
        remove(limit, claim[1])
        if not freed[limit.name] then
          freed[limit.name] = true
          order[#order + 1] = limit.name
        end
      end
    end
    for _, name in ipairs(order) do
      limits.forget(name)
      if redis.pcall('EXISTS', shared_key('places:' .. name)) == 0 then
        redis.pcall('HDEL', shared_key('used'), name)
      end
      open_lanes.open_all(name)
    end
  end

  -- Let a limit rest until a time: no job of it starts before.
  function my.rest(name, time, micros, ms)
    local state = limits.state(name)
    if state.refused then return end
    state.rests_until = math.max(state.rests_until, time + ms)
    rates.write(name, state, time, micros)
    -- For lists of limits only. With pcall: another program's data there must not stop the end of a lease.
    redis.pcall('ZREMRANGEBYSCORE', shared_key('resting'), '-inf', time)
    redis.pcall('ZADD', shared_key('resting'), digits(state.rests_until), name)
    redis.pcall('PEXPIRE', shared_key('resting'), '@REST_MOST_MS@')
  end
end
