-- lib places: the places that leases hold at their limits. An entry names its lease, so it can be removed once and no more: by the
-- step that takes the claim out of `held:<worker>`.
places = {}
do
  local my = places
  local function entries_of(limit, token, count)
    local entries = {}
    for n = 1, count do entries[n] = prefix .. ' ' .. token .. ' ' .. n end
    return entries
  end

  -- Take the places of a job that starts under this token.
  function my.take(limit, token, most)
    local count = math.min(limit.cost, most or limit.cost)
    call('SADD', shared_key('places:' .. limit.name), unpack(entries_of(limit, token, count)))
    return count
  end

  -- Free the places of claims {token, shape} that have ended, and open the gates of their limits.
  function my.free(claims)
    local freed, order = {}, {}
    for _, claim in ipairs(claims) do
      for _, limit in ipairs(limits.of(shapes.word(claim[2], 'm') or '')) do
        redis.pcall('SREM', shared_key('places:' .. limit.name), unpack(entries_of(limit, claim[1], limit.cost)))
        if not freed[limit.name] then
          freed[limit.name] = true
          order[#order + 1] = limit.name
        end
      end
    end
    for _, name in ipairs(order) do
      limits.forget(name)
      open_lanes.open_all(name)
    end
  end

  -- Let a limit rest until a time: no job of it starts before.
  function my.rest(name, time, micros, ms)
    local state = limits.state(name)
    if state.refused then return end
    state.rests_until = math.max(state.rests_until, time + ms)
    rates.write(name, state, time, micros)
  end
end
