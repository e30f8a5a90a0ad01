-- lib lanes: lanes and whose turn it is. A job that is out of line but not ended (held, waiting for its retry,
-- isolated, unroutable), or that has failed and blocks, occupies its lane.
--@include lazy wake turns lanelimits
local lanes = setmetatable({ function(my)
  function my.busy_of(lane) return is_internal(lane) and 0 or tonumber(call('HGET', key('lanes'), lane) or 0) end

  -- Note that a job occupies its lane. Its rank is its place in the lane's order: several jobs may be out of line at one
  -- time, and they come back in any order.
  function my.occupy(lane, id, rank)
    if call('HSET', key('busy'), id, rank .. ' ' .. lane) == 1 then
      call('HINCRBY', key('lanes'), lane, 1)
    end
  end

  function my.vacate(lane, id)
    if call('HDEL', key('busy'), id) == 1 and call('HINCRBY', key('lanes'), lane, -1) <= 0 then
      call('HDEL', key('lanes'), lane)
    end
  end

  -- The id in an entry of a lane, and the job's rank if it has been out of line before.
  function my.entry_of(text)
    local rank, id = string.match(text, '^@(%d+)/(.*)$')
    return id or text, rank
  end

  -- The lane that a job occupies, and the job's rank.
  function my.occupied_by(id)
    local rank, lane = string.match(call('HGET', key('busy'), id) or '', '^(%d+) (.*)$')
    return lane, rank
  end

  -- Whether a lane starts no jobs: it is parked, or on hold (see lib hold).
  function my.is_aside(lane)
    return call('HEXISTS', key('parked'), lane) == 1 or call('ZSCORE', key('holds'), lane)
  end

  -- Whether the next job of a lane may be claimed, and how many jobs wait in it.
  function my.may_run(lane)
    local waiting = call('LLEN', key('lane:' .. lane))
    return waiting > 0 and my.busy_of(lane) < lane_limits.of(lane) and not my.is_aside(lane)
      and not (has_limits() and call('HEXISTS', key('gated'), lane) == 1), waiting
  end

  -- Change a lane. `turns` lists it once while its next job may be claimed, else not at all.
  function my.change(lane, first, change)
    local before = my.may_run(lane)
    change()
    local after, waiting = my.may_run(lane)
    if after and not before then
      turns.add(lane, first)
      wake_one()
    elseif before and not after then
      turns.remove(lane)
    end
    if waiting == 0 and my.busy_of(lane) == 0 then
      if not is_internal(lane) then lane_limits.set(lane, 1) end
      if has_limits() then gates.leave(lane) end
    end
    if before and not after and has_limits() then passes.pass_on(lane) end
  end
end }, lazy)
--@include limiting
