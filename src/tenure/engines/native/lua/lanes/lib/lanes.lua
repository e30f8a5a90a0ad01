-- lib lanes: lanes, and which lane has the next turn. A job that is out of line but not ended (held, waiting for its
-- retry, isolated, unroutable), or that has failed and blocks, occupies its lane.
-- Defines: lanes. Redis: reads and writes.
--@include lazy wake turns lanelimits

-- How many jobs lanes have: a part of `lanes`.
local function add_counts(my)
  -- How many jobs of each of these lanes wait, and how many occupy it.
  function my.counts_of(names)
    local waiting, busy = {}, call('HMGET', key('lanes'), unpack(names))
    for n, lane in ipairs(names) do
      waiting[n] = call('LLEN', key('lane:' .. lane))
      busy[n] = not is_internal(lane) and tonumber(busy[n] or 0) or 0
    end
    return waiting, busy
  end

  -- Write how many jobs occupy these lanes, where this has changed.
  function my.write_busy(names, busy, stored)
    local set, gone = {}, {}
    for n, lane in ipairs(names) do
      if busy[n] ~= stored[n] and busy[n] > 0 then
        set[#set + 1], set[#set + 2] = lane, busy[n]
      elseif busy[n] ~= stored[n] then
        gone[#gone + 1] = lane
      end
    end
    if #set > 0 then call('HSET', key('lanes'), unpack(set)) end
    if #gone > 0 then call('HDEL', key('lanes'), unpack(gone)) end
  end

  -- The lanes with a next job that may be claimed: true at their numbers.
  function my.which_may_run(names, waiting, busy)
    local may, asked, numbers = {}, {}, {}
    for n, lane in ipairs(names) do
      if waiting[n] > 0 and busy[n] < lane_limits.of(lane) then
        asked[#asked + 1], numbers[#numbers + 1] = lane, n
      end
    end
    if #asked == 0 then return may end
    local parked, holds = call('HMGET', key('parked'), unpack(asked)), call('ZMSCORE', key('holds'), unpack(asked))
    local gated = has_limits() and call('HMGET', key('gated'), unpack(asked)) or {}
    for i, n in ipairs(numbers) do may[n] = not (parked[i] or holds[i] or gated[i]) end
    return may
  end

  function my.may_run(lane) return my.which_may_run({ lane }, my.counts_of({ lane }))[1] end
end

-- What changes lanes: a part of `lanes`.
local function add_changes(my)
  -- Change lanes: `change(waiting, busy)` also changes their counts. `turns` lists a lane once while its next job may
  -- be claimed, else not at all. What many lanes have in common is read and written together.
  function my.change(names, first, change)
    local waiting, busy = my.counts_of(names)
    local before, stored, added = my.which_may_run(names, waiting, busy), { unpack(busy) }, {}
    change(waiting, busy)
    my.write_busy(names, busy, stored)
    local after = my.which_may_run(names, waiting, busy)
    for n, lane in ipairs(names) do
      if after[n] and not before[n] then
        added[#added + 1] = lane
      elseif before[n] and not after[n] then
        turns.remove(lane)
      end
      if waiting[n] == 0 and busy[n] <= 0 then
        if not is_internal(lane) then lane_limits.set(lane, 1) end
        if has_limits() then gates.leave(lane) end
      end
      if before[n] and not after[n] and has_limits() then passes.pass_on(lane) end
    end
    if #added > 0 then
      turns.add(added, first)
      wake_one()
    end
  end

  -- Note that jobs do not occupy their lanes any more, within a change of these: the lane of the nth job has the number
  -- `at[n]`.
  function my.vacate(ids, at, busy)
    local gone = {}
    for n, text in ipairs(call('HMGET', key('busy'), unpack(ids))) do
      if text then
        gone[#gone + 1] = ids[n]
        busy[at[n]] = busy[at[n]] - 1
      end
    end
    if #gone > 0 then call('HDEL', key('busy'), unpack(gone)) end
  end

  -- Let the lanes of these jobs continue without them, as far as the jobs occupy them.
  function my.leave(lanes_of, ids)
    local names, number_of, leaving, at = {}, {}, {}, {}
    for n, text in ipairs(call('HMGET', key('busy'), unpack(ids))) do
      local lane = lanes_of[n]
      if text and not number_of[lane] then
        names[#names + 1] = lane
        number_of[lane] = #names
      end
      if text then leaving[#leaving + 1], at[#at + 1] = ids[n], number_of[lane] end
    end
    if #names == 0 then return end
    my.change(names, false, function(_, busy)
      for _, n in ipairs(at) do busy[n] = busy[n] - 1 end
      call('HDEL', key('busy'), unpack(leaving))
    end)
  end
end

local lanes = setmetatable({ function(my)
  function my.busy_of(lane) return is_internal(lane) and 0 or tonumber(call('HGET', key('lanes'), lane) or 0) end

  -- Note that jobs, which have left the line, occupy their lanes, `texts`: {id, '<rank> <lane>'...}. The rank is the
  -- place of a job in the lane's order: several jobs may be out of line at one time, and they come back in any order.
  function my.occupy(lanes_of, texts)
    local names, more, counts = {}, {}, {}
    for _, lane in ipairs(lanes_of) do
      if not more[lane] then names[#names + 1] = lane end
      more[lane] = (more[lane] or 0) + 1
    end
    call('HSET', key('busy'), unpack(texts))
    for n, count in ipairs(call('HMGET', key('lanes'), unpack(names))) do
      counts[2 * n - 1], counts[2 * n] = names[n], (count or 0) + more[names[n]]
    end
    call('HSET', key('lanes'), unpack(counts))
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
end, add_counts, add_changes }, lazy)
--@include limiting
