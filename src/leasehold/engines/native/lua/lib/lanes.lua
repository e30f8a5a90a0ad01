-- lib lanes: lanes and whose turn it is. A job that is out of line but not ended (held, waiting for its retry,
-- isolated, unroutable), or that has failed and blocks, occupies its lane.
--@include lazy wake turns lanelimits

-- What changes a lane: a part of `lanes`.
local function add_changes(my)
  local function count_down(lane, counts)
    counts.busy = counts.busy - 1
    if counts.busy <= 0 then
      call('HDEL', key('lanes'), lane)
    else
      call('HINCRBY', key('lanes'), lane, -1)
    end
  end

  -- Note that a job does not occupy its lane any more, within a change of the lane.
  function my.vacate(lane, id, counts)
    if call('HDEL', key('busy'), id) == 1 then count_down(lane, counts) end
  end

  -- How many jobs of a lane wait, and how many occupy it.
  local function counts_of(lane) return { waiting = call('LLEN', key('lane:' .. lane)), busy = my.busy_of(lane) } end

  -- Whether the next job of a lane may be claimed.
  function my.may_run(lane, counts)
    counts = counts or counts_of(lane)
    return counts.waiting > 0 and counts.busy < lane_limits.of(lane) and not my.is_aside(lane)
      and not (has_limits() and call('HEXISTS', key('gated'), lane) == 1)
  end

  -- Change a lane: `change(counts)` also changes the counts. `turns` lists the lane once while its next job may be claimed, else
  -- not at all.
  function my.change(lane, first, change)
    local counts = counts_of(lane)
    local before = my.may_run(lane, counts)
    change(counts)
    local after = my.may_run(lane, counts)
    if after and not before then
      turns.add(lane, first)
      wake_one()
    elseif before and not after then
      turns.remove(lane)
    end
    if counts.waiting == 0 and counts.busy <= 0 then
      if not is_internal(lane) then lane_limits.set(lane, 1) end
      if has_limits() then gates.leave(lane) end
    end
    if before and not after and has_limits() then passes.pass_on(lane) end
  end

  -- Let a lane continue without a job, if the job occupies it.
  function my.leave(lane, id)
    if call('HDEL', key('busy'), id) == 0 then return end
    my.change(lane, false, function(counts) count_down(lane, counts) end)
  end
end

local lanes = setmetatable({ function(my)
  add_changes(my)
  function my.busy_of(lane) return is_internal(lane) and 0 or tonumber(call('HGET', key('lanes'), lane) or 0) end

  -- Note that a job occupies its lane. Its rank is its place in the lane's order: several jobs may be out of line at one
  -- time, and they come back in any order.
  function my.occupy(lane, id, rank)
    if call('HSET', key('busy'), id, rank .. ' ' .. lane) == 1 then
      call('HINCRBY', key('lanes'), lane, 1)
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
end }, lazy)
--@include limiting
