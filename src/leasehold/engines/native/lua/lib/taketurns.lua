-- lib taketurns: take jobs of lanes, lane by lane in their turns. A part of `claim`, for queues that use features.
--@include takelist

-- Take the next job of a lane, or up to `most` jobs of one task that follow each other. Answers whether the lane may continue.
local function take_turn(lane, most)
  local list, busy, limited = 'lane:' .. lane, lanes.busy_of(lane), lanes.limit_of(lane)
  local first, goal, popped = nil, #jobs + (limited == 1 and most or math.min(most, limited - busy)), 0
  while #jobs < goal and looked < limit + @MAX_LOOK@ and (popped == 0 or read < @MAX_CALL_BYTES@) do
    local entry = ask('LPOP', list)
    if not entry then
      if refused then call('LPUSH', key('turns'), lane) end
      break
    end
    looked, popped = looked + 1, popped + 1
    local id, rank = lanes.entry_of(entry)
    if not is_tombstone(tombstone_name(list, id)) then
      local record = call('HGET', key('jobs'), id)
      local failures, crashes, doubtful = counted(has_tries and call('HGET', key('tries'), id))
      local is_suspect = doubtful >= config.isolate
      if not record or taken[id] then
        dropped[#dropped + 1] = id
      elseif first and (task_of(record) ~= first or is_suspect) then
        call('LPUSH', key(list), entry)
        popped = popped - 1
        break
      else
        lanes.occupy(lane, id, rank or digits(token + 1))
        busy = busy + 1
        if is_suspect then
          call('RPUSH', key('isolated'), id)
          break
        end
        take(id, record, failures, crashes)
        first = task_of(record)
      end
    end
  end
  unlaned = unlaned + popped
  if call('EXISTS', key(list)) == 1 then
    return busy < limited and not refused
  elseif busy == 0 then
    call('HDEL', key('limits'), lane)
  end
  return false
end

-- Whether this claim looks at no further entry.
local function has_looked_enough()
  return refused or read >= @CLAIM_BYTES@ or looked >= limit + @MAX_LOOK@
end

-- Take up to `count` jobs of lanes. A lane that may continue goes to the end of `turns`. A turn takes several times as long as a
-- job of `ready`, so a claim has a limited number of them.
local function take_lanes(count)
  local goal = #jobs + count
  while #jobs < goal and not has_looked_enough() and not is_spent() do
    local popped = call('LPOP', key('turns'), math.min(goal - #jobs, @TURNS_MOST@ - turned)) or {}
    if #popped == 0 then return end
    turned = turned + #popped
    local on, left = {}, {}
    for _, lane in ipairs(popped) do
      if #jobs >= goal or has_looked_enough() then
        table.insert(left, 1, lane)
      elseif take_turn(lane, math.min(of_lane, goal - #jobs)) then
        on[#on + 1] = lane
      end
    end
    if #on > 0 then call('RPUSH', key('turns'), unpack(on)) end
    if #left > 0 then call('LPUSH', key('turns'), unpack(left)) end
  end
end

-- Jobs of `ready` and jobs of lanes take turns, so that neither waits for all of the other.
local function take_common(count, lanes_first)
  if call('EXISTS', key('turns')) == 0 then
    return take_list('ready', count)
  elseif call('EXISTS', key('ready')) == 0 then
    return take_lanes(count)
  end
  local goal = #jobs + count
  call('HSET', key('meta'), 'turn', lanes_first and 0 or 1)
  if lanes_first then take_lanes(math.ceil(count / 2)) end
  take_list('ready', lanes_first and goal - #jobs or math.ceil(count / 2))
  take_lanes(goal - #jobs)
  take_list('ready', goal - #jobs)
end
