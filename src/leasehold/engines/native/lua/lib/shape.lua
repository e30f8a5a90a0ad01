-- lib shape: how a job lies in its queue. The words of its shape are the last of its record's first line and of its
-- claim: p=<priority> l=<lane> n=<how many of the lane at one time> u=<mode>:<unique key> k=1 (persistent).
--@include rare

-- The words, '' for a job that is just next in line.
local function shape_of(record)
  return string.match(record or '', '^[^\n]- ([plnuk]=[^\n]*)') or ''
end

--@include due
-- All else about shapes.
local shapes = setmetatable({ function(my)
  local function word(shape, name)
    return string.match(' ' .. shape, ' ' .. name .. '=(%S+)')
  end

  local function busy_of(lane)
    return tonumber(call('HGET', key('lanes'), lane) or 0)
  end

  local function limit_of(lane)
    return tonumber(call('HGET', key('limits'), lane) or 1)
  end

  -- A job that is out of line but not ended (held, waiting for its retry, isolated, unroutable), or that has failed and
  -- blocks, occupies its lane. `rank` says where in the lane's order it was: several may be out of line at one time, and
  -- they come back in any order.
  local function occupy(lane, id, rank)
    if call('HSET', key('busy'), id, rank .. ' ' .. lane) == 1 then
      call('HINCRBY', key('lanes'), lane, 1)
    end
  end

  -- The lane that a job occupies, and its rank.
  local function occupied_by(id)
    local rank, lane = string.match(call('HGET', key('busy'), id) or '', '^(%d+) (.*)$')
    return lane, rank
  end

  -- An entry of a lane is an id, with its rank before it when it has been out of line before.
  local function entry_of(text)
    local rank, id = string.match(text, '^@(%d+)/(.*)$')
    return id or text, rank
  end

  local function vacate(lane, id)
    if call('HDEL', key('busy'), id) == 1 and call('HINCRBY', key('lanes'), lane, -1) <= 0 then
      call('HDEL', key('lanes'), lane)
    end
  end

  -- Whether none of its jobs may start: it is parked, or on hold (see lib hold).
  local function is_aside(lane)
    return call('HEXISTS', key('parked'), lane) == 1 or call('ZSCORE', key('holds'), lane)
  end

  local function may_run(lane)
    return call('LLEN', key('lane:' .. lane)) > 0 and busy_of(lane) < limit_of(lane) and not is_aside(lane)
  end

  -- Change a lane. `turns` has it once while its next job may be claimed, else not at all.
  local function with_lane(lane, first, change)
    local before = may_run(lane)
    change()
    local after = may_run(lane)
    if after and not before then
      call(first and 'LPUSH' or 'RPUSH', key('turns'), lane)
      wake_one()
    elseif before and not after then
      call('LREM', key('turns'), 1, lane)
    end
    if not after and call('EXISTS', key('lane:' .. lane)) == 0 and busy_of(lane) == 0 then
      call('HDEL', key('limits'), lane)
    end
  end

  -- Put these jobs into line at its end, and say how many of the lane may run.
  local function into_lane(lane, ids, limit)
    with_lane(lane, false, function()
      if limit ~= 1 then
        call('HSET', key('limits'), lane, limit)
      else
        call('HDEL', key('limits'), lane)
      end
      call('RPUSH', key('lane:' .. lane), unpack(ids))
      call('HINCRBY', key('meta'), 'laned', #ids)
      for _, id in ipairs(ids) do
        vacate(lane, id)
      end
    end)
  end

  -- How many jobs with a lower rank are at the front of a lane. They are there in the order of their ranks, and behind them
  -- what was not out of line yet; they are no more than can have been out of line at one time.
  local hints = {}
  local function count_before(list, rank)
    local low, high = 0, 1
    local function is_before(n)
      local _, other = entry_of(call('LINDEX', list, n) or '')
      return other and tonumber(other) <= rank
    end
    -- Those that come back one after the other are mostly next to each other.
    local hint = hints[list]
    if hint and is_before(hint - 1) and not is_before(hint) then
      return hint
    end
    while high <= @MAX_LANE_LIMIT@ and is_before(high - 1) do
      low, high = high, 2 * high
    end
    while low + 1 < high do
      local middle = math.floor((low + high) / 2)
      if is_before(middle - 1) then
        low = middle
      else
        high = middle
      end
    end
    return low
  end

  -- Put a job back to the front of its lane: behind those that were before it and are back already. One whose rank is
  -- forgotten (it had ended) goes before all, also before those that are still to come back.
  local function back_into_lane(lane, id)
    local list, _, known = key('lane:' .. lane), occupied_by(id)
    local rank = known or '0'
    with_lane(lane, true, function()
      local before = count_before(list, tonumber(rank))
      hints[list] = before + 1
      local entry = '@' .. rank .. '/' .. id
      if before > 0 then
        call('LINSERT', list, 'AFTER', call('LINDEX', list, before - 1), entry)
      else
        call('LPUSH', list, entry)
      end
      call('HINCRBY', key('meta'), 'laned', 1)
      vacate(lane, id)
    end)
  end

  -- A job has ended, so its lane goes on without it.
  local function leave_lane(shape, id)
    local lane = word(shape, 'l')
    if lane and call('HEXISTS', key('busy'), id) == 1 then
      with_lane(lane, false, function() vacate(lane, id) end)
    end
  end

  -- Make a job ready: in its lane, on its level, or just in line; at the end of it, or at its very front.
  local function place(id, shape, first)
    local lane, priority = word(shape, 'l'), word(shape, 'p')
    if lane and first then
      back_into_lane(lane, id)
    elseif lane then
      into_lane(lane, { id }, tonumber(word(shape, 'n') or 1))
    elseif priority then
      call(first and 'LPUSH' or 'RPUSH', key('ready:' .. priority), id)
      call('ZADD', key('priorities'), priority, priority)
    else
      call(first and 'LPUSH' or 'RPUSH', key('ready'), id)
    end
    wake_one()
  end

  -- Make a job ready that was out of line: where its lane waits for it at the front, else at the end.
  local function place_again(id, shape)
    place(id, shape, call('HEXISTS', key('busy'), id) == 1)
  end

  local function list_of(shape)
    local lane, priority = word(shape, 'l'), word(shape, 'p')
    return lane and 'lane:' .. lane or priority and 'ready:' .. priority
  end

  -- Another program's data in the place of the list that a shape says is an error. To be asked for all jobs of a call
  -- before anything is changed.
  local checked = {}
  local function check(shape, ask)
    local list = list_of(shape)
    if list and not checked[list] then
      local answer = (ask or call)('LLEN', key(list))
      if type(answer) == 'table' then
        return answer
      end
      checked[list] = answer
    end
  end

  -- That error, where it must not end the call: nil when there is none.
  local function trouble_of(shape)
    return check(shape, redis.pcall)
  end

  -- A job that cannot be put into line is due later. What it was part of goes on.
  local later = nil
  local function put_off(id)
    later = later or clock() + @PUT_OFF_MS@
    call('ZADD', key('scheduled'), later, due_entry(id, call('HGET', key('jobs'), id)))
  end

  local function place_or_put_off(id, shape)
    if trouble_of(shape) then
      put_off(id)
    else
      place(id, shape, false)
    end
  end

  -- The failed jobs that block a lane.
  local function blockers(lane)
    local packed = call('HGET', key('blocked'), lane)
    return packed and cmsgpack.unpack(packed) or {}
  end

  local function set_blockers(lane, ids)
    if #ids > 0 then
      call('HSET', key('blocked'), lane, cmsgpack.pack(ids))
    else
      call('HDEL', key('blocked'), lane)
    end
  end

  -- A failed job that is removed or run again blocks its lane no longer.
  local function unblock(id)
    local lane = occupied_by(id)
    local ids, others = lane and blockers(lane) or {}, {}
    for _, other in ipairs(ids) do
      if other ~= id then
        others[#others + 1] = other
      end
    end
    if #others < #ids then
      set_blockers(lane, others)
    end
  end

  -- What the end of a job means for its lane: answers whether it blocks it.
  local function end_in_lane(time, state, id, shape)
    local lane = word(shape, 'l')
    if not lane or call('HEXISTS', key('busy'), id) == 0 then
      return false
    end
    local rule = state ~= 'cancelled' and call('HGET', key('settings'), 'lane_failure')
    if rule == 'block' then
      local ids = blockers(lane)
      ids[#ids + 1] = id
      set_blockers(lane, ids)
      return true
    end
    if rule == 'park' and call('HEXISTS', key('parked'), lane) == 0 then
      with_lane(lane, false, function() call('HSET', key('parked'), lane, time .. ' ' .. id) end)
    end
    leave_lane(shape, id)
    return false
  end

  my.word = word
  my.busy_of = busy_of
  my.limit_of = limit_of
  my.is_aside = is_aside
  my.occupy = occupy
  my.occupied_by = occupied_by
  my.entry_of = entry_of
  my.vacate = vacate
  my.with_lane = with_lane
  my.into_lane = into_lane
  my.leave_lane = leave_lane
  my.place = place
  my.place_again = place_again
  my.put_off = put_off
  my.place_or_put_off = place_or_put_off
  my.check = check
  my.trouble_of = trouble_of
  my.blockers = blockers
  my.unblock = unblock
  my.end_in_lane = end_in_lane
end }, unmade)
