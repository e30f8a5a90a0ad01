-- lib limits: what a limit allows. A job names its limits in the word `m` of its shape, with the numbers of its code:
-- <name>:<cost>:<concurrency>:<interval in microseconds>:<burst>, with commas between. What is stored in the
-- namespace's `limits` replaces these numbers. State: `limit:<name>`, the time until which a rate is used up (GCRA: one
-- number) and until when the limit rests; `places:<name>`, one entry for each unit of a lease that is held: it names
-- the lease.
-- Needs: digits, reservations, shared_key. Sets: limits, rates. Redis: reads and writes.
limits = {}
do
  local my = limits
  local parsed, states = {}, {}

  -- The limits in a word.
  function my.of(word)
    if not parsed[word] then
      parsed[word] = {}
      for name, cost, numbers in string.gmatch(word, '([^:,]+):(%d+):(%d*:%d*:%d*)') do
        local most, interval, burst = string.match(numbers, '^(%d*):(%d*):(%d*)$')
        table.insert(parsed[word], {
          name = name, cost = tonumber(cost), most = tonumber(most), interval = tonumber(interval),
          burst = tonumber(burst),
          numbers = numbers,
        })
      end
    end
    return parsed[word]
  end

  -- Read the state of a limit again when it is asked for next.
  function my.forget(name) states[name] = nil end

  -- The state of a limit; `refused`: an error, since another program's data is in the place of a key.
  function my.state(name)
    if states[name] then return states[name] end
    local found = {
      redis.pcall('HGET', shared_key('limits'), name),
      redis.pcall('GET', shared_key('limit:' .. name)),
      redis.pcall('SCARD', shared_key('places:' .. name)),
      redis.pcall('ZCARD', key('gate:' .. name)),
    }
    local state = {}
    for _, reply in ipairs(found) do
      if type(reply) == 'table' and reply.err then return { refused = reply } end
    end
    state.most, state.interval, state.burst = string.match(found[1] or '', '^(%d*):(%d*):(%d*)$')
    local used_until, rests_until = string.match(found[2] or '', '^(%d+) (%d+)$')
    state.used_until, state.rests_until = tonumber(used_until or 0), tonumber(rests_until or 0)
    state.taken, state.gated = found[3], found[4]
    state.reserved = reservations.of(name)
    states[name] = state
    return state
  end

  -- The numbers that apply to a limit of a job.
  function my.numbers(limit, state)
    local most = tonumber(state.most) or limit.most
    return most, tonumber(state.interval) or limit.interval, tonumber(state.burst) or limit.burst or 1
  end
end

-- What a limit allows at a time.
rates = {}
do
  local my = rates
  -- Until when a rate is used up after a job of this cost has started, and until when it may be. A job that costs more
  -- than the burst starts when all of the burst is free.
  function my.used_after(limit, state, micros, cost)
    local _, interval, burst = limits.numbers(limit, state)
    if not interval then return nil end
    local latest, most = micros + burst * interval, micros + (burst + @COST_MOST@) * interval
    if state.used_until > most then
      -- It was written under other numbers, or by another clock.
      state.used_until, state.is_cut = most, true
    end
    return math.max(micros, state.used_until) + cost * interval, latest + math.max(0, cost - burst) * interval
  end

  -- Whether a limit stops a job of this cost, and the moment (in ms) from which on it does not; nil: when a lease ends.
  -- `kept`: what is kept free for another job: see lib reservations.
  function my.stops(limit, state, cost, time, micros, kept)
    if kept > 0 then
      local stops, moment = my.stops(limit, state, cost, time, micros, 0)
      if stops then return stops, moment end
    end
    if state.rests_until > time and state.rests_until <= time + @REST_MOST_MS@ then return true, state.rests_until end
    local most = limits.numbers(limit, state)
    local look = kept > 0 and time + @RESERVED_LOOK_MS@ or nil
    if most and state.taken + math.min(cost, most) + math.min(kept, most) > most then return true, look end
    local used, latest = my.used_after(limit, state, micros, cost)
    if used and used + kept * (select(2, limits.numbers(limit, state))) > latest then
      return true, look or math.ceil((micros + used - latest) / 1000)
    end
    return false
  end

  -- Write until when a rate is used up and a limit rests.
  function my.write(name, state, time, micros)
    local ms = math.max(math.ceil((state.used_until - micros) / 1000), state.rests_until - time)
    if ms > 0 then
      local text = digits(state.used_until) .. ' ' .. digits(state.rests_until)
      call('SET', shared_key('limit:' .. name), text, 'PX', digits(ms + 1000))
    end
  end
end
