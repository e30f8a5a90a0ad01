-- lib reservations: places that are kept free for a job with several limits, when floods of jobs keep each of these
-- full. Its lane notes its costs in the namespace's `reserved`, of all its limits or of none: `<until> <cost> <queue's
-- prefix> <lane>`. So two such jobs cannot wait for each other. What is noted holds while the lane waits at a gate of a
-- queue that workers serve.
-- Needs: digits, limits, shared_key. Sets: reservations. Redis: reads and writes.
reservations = {}
do
  local my = reservations

  -- With pcall, as in all of this lib: another program's data, here or in the queue of the lane, must not stop a claim.
  local function is_valid(one, time)
    if one.lasts <= time or one.lasts > time + @RESERVED_MOST_MS@ then return false end
    local seen = tonumber(redis.pcall('HGET', one.queue .. ':meta', 'seen') or 0) or 0
    return seen >= time - @RESERVED_SEEN_MS@ and redis.pcall('HEXISTS', one.queue .. ':settings', 'paused') == 0
      and (redis.pcall('HEXISTS', one.queue .. ':gated', one.lane) == 1
        or redis.pcall('HEXISTS', one.queue .. ':opened', one.lane) == 1)
  end

  -- The reservation of a limit {lasts, cost, queue, lane}; nil: none.
  function my.of(name)
    local text = redis.pcall('HGET', shared_key('reserved'), name)
    local lasts, cost, queue, lane = string.match(type(text) == 'string' and text or '', '^(%d+) (%d+) (%S+) (%S+)$')
    return lane and { lasts = tonumber(lasts), cost = tonumber(cost), queue = queue, lane = lane }
  end

  -- How much of a limit is kept free for another lane than this one.
  function my.kept_from(lane, name, state, time)
    local one = state.reserved
    if not one or one.queue == prefix and one.lane == lane then return 0 end
    if is_valid(one, time) then return one.cost end
    redis.pcall('HDEL', shared_key('reserved'), name)
    state.reserved = nil
    return 0
  end

  -- Keep the places of a lane's next job free, unless places of one of its limits are kept for another lane.
  function my.make(lane, word, time)
    local found = limits.of(word)
    for _, limit in ipairs(found) do
      local state = limits.state(limit.name)
      if state.refused or my.kept_from(lane, limit.name, state, time) > 0 then return end
    end
    for _, limit in ipairs(found) do
      local text = digits(time + @RESERVED_MOST_MS@) .. ' ' .. limit.cost .. ' ' .. prefix .. ' ' .. lane
      redis.pcall('HSET', shared_key('reserved'), limit.name, text)
      limits.forget(limit.name)
    end
    redis.pcall('PEXPIRE', shared_key('reserved'), '@RESERVED_MOST_MS@')
  end

  -- A job of a lane has started: nothing is kept for it any more. Returns whether something was.
  function my.used(lane, name, state)
    local one = state.reserved
    if not one or one.queue ~= prefix or one.lane ~= lane then return false end
    redis.pcall('HDEL', shared_key('reserved'), name)
    state.reserved = nil
    return true
  end
end
