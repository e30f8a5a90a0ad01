-- lib laneline: how jobs get into the line of their lane.
-- Defines: lane_line. Redis: reads and writes.
--@include lanes

-- How a job comes back into its lane: a part of `lane_line`.
local function add_requeue(my)
  -- Count the jobs with a lower rank at the front of a lane. They stand there in the order of their ranks, in front of
  -- the jobs that were never out of line, and are no more than can have been out of line at one time.
  local hints = {}
  local function count_before(list, rank)
    local hint, low, high = hints[list], 0, 1
    local function is_before(n)
      local _, other = lanes.entry_of(call('LINDEX', list, n) or '')
      return other and tonumber(other) <= rank
    end
    -- Jobs that come back one after the other are mostly next to each other.
    if hint and is_before(hint - 1) and not is_before(hint) then return hint end
    while high <= @MAX_LANE_LIMIT@ and is_before(high - 1) do
      low, high = high, 2 * high
    end
    while low + 1 < high do
      local middle = math.floor((low + high) / 2)
      if is_before(middle - 1) then low = middle else high = middle end
    end
    return low
  end

  -- Put a job back to the front of its lane, behind the jobs before it that are back already. A job without a rank
  -- (forgotten, since it had ended) goes before all others, also before jobs that are still to come back.
  function my.requeue(lane, id)
    local list, _, rank = key('lane:' .. lane), lanes.occupied_by(id)
    rank = rank or '0'
    lanes.change({ lane }, true, function(waiting, busy)
      local before, entry = count_before(list, tonumber(rank)), '@' .. rank .. '/' .. id
      hints[list] = before + 1
      if before > 0 then
        call('LINSERT', list, 'AFTER', call('LINDEX', list, before - 1), entry)
      else
        call('LPUSH', list, entry)
      end
      call('HINCRBY', key('meta'), 'laned', 1)
      waiting[1] = waiting[1] + 1
      lanes.vacate({ id }, { 1 }, busy)
      -- The job now in front may have other limits than the one that waited at a gate.
      if has_limits() then gates.leave(lane) end
    end)
  end
end

local lane_line = setmetatable({ function(my)
  add_requeue(my)
  -- Put jobs at the end of their lanes, and set how many jobs of a lane may run: for each of these lanes, `line` has
  -- the ids, and the number as `limit`.
  function my.append(names, line)
    local placed, at = {}, {}
    lanes.change(names, false, function(waiting, busy)
      for n, lane in ipairs(names) do
        local ids = line[lane]
        if not is_internal(lane) then lane_limits.set(lane, ids.limit) end
        waiting[n] = call('RPUSH', key('lane:' .. lane), unpack(ids))
        for _, id in ipairs(ids) do
          placed[#placed + 1], at[#at + 1] = id, n
        end
      end
      call('HINCRBY', key('meta'), 'laned', #placed)
      lanes.vacate(placed, at, busy)
    end)
  end

  -- Put a job at the front of an internal lane, which no job occupies.
  function my.put_first(lane, id)
    lanes.change({ lane }, true, function(waiting)
      waiting[1] = call('LPUSH', key('lane:' .. lane), id)
      call('HINCRBY', key('meta'), 'laned', 1)
    end)
  end
end }, lazy)
