-- lib taketurns: take jobs of lanes, lane by lane in their turns. A part of `claim`, for queues that use features.
-- Needs: ARGV, counted, dropped, gates, has_limits, has_places, has_tries, is_internal, is_tombstone, jobs, lane_limits, lanes,
-- limit, limits, looked, micros, number_in, of_lane, open_lanes, passes, read, reservations, shape_of, shapes, shared_key, starts, take, taken,
-- task_of, time, token, token_text, turns. Sets: isolates, note_occupied, refused, turned, unlaned. Defines: take_common. Redis:
-- reads and writes.
--@include takelist

-- The lanes of jobs that this claim has taken out of line, and the texts of these jobs in `busy`. They are written together; before
-- that, nothing else of this call may ask whether a lane may run.
local occupied, busy_texts = {}, {}
note_occupied = function()
  if #occupied == 0 then return end
  lanes.occupy(occupied, busy_texts)
  occupied, busy_texts = {}, {}
end

-- The turn of a lane. (One table for all turns of a claim, since a table takes longer than a turn needs.)
local turn = {}

-- Whether a limit stops a job. Then its lane waits at the gate of the limit.
local function is_stopped(record)
  local shape = has_limits() and shape_of(record) or ''
  if not has_places(shape) then return false end
  local word = shapes.word(shape, 'm')
  local name, moment = starts.stopped_by(word, turn.entered, time, micros, turn.lane)
  if type(name) == 'table' then
    refused = name
  elseif name then
    turn.stop, turn.moment, turn.word = name, moment, word
  end
  turn.entered = true
  return name ~= nil
end

-- Take the job of an entry, which has been popped, of the lane whose turn it is. Answers whether the turn may continue.
local function take_entry(entry)
  local id, rank = lanes.entry_of(entry)
  if is_tombstone(turn.list, id) then return true end
  local record = call('HGET', key('jobs'), id)
  local failures, crashes, doubtful = counted(has_tries and call('HGET', key('tries'), id))
  local is_suspect = doubtful > 0 and doubtful >= number_in(ARGV[3], 'isolate')
  if not record or taken[id] then
    dropped[#dropped + 1] = id
    return true
  end
  local is_other = turn.taken and (task_of(record) ~= task_of(turn.taken) or is_suspect)
  if is_other or not is_suspect and is_stopped(record) then
    call('LPUSH', key(turn.list), entry)
    turn.popped = turn.popped - 1
    return false
  end
  if not turn.internal then
    occupied[#occupied + 1] = turn.lane
    busy_texts[#busy_texts + 1], busy_texts[#busy_texts + 2] = id, (rank or token_text(token + 1)) .. ' ' .. turn.lane
    turn.busy = turn.busy + 1
  end
  if is_suspect then
    call('RPUSH', key('isolated'), id)
    isolates = true
    return false
  end
  take(id, record, failures, crashes)
  turn.taken = record
  return true
end

-- The end of a turn under limits. An opened lane that has used nothing of its limit gives its chance to the next one.
local function end_turn()
  local pass = turn.pass
  note_occupied()
  if turn.stop then
    limits.forget(turn.stop)
    gates.shut(turn.lane, turn.stop, turn.moment, pass and not turn.taken and pass.since)
  end
  if not pass or turn.stop == pass.name then return end
  local word = turn.taken and shapes.word(shape_of(turn.taken), 'm') or ''
  if not string.find(',' .. word, ',' .. pass.name .. ':', 1, true) then
    -- It lacks the place of another limit. After a while its places are kept free for it.
    local has_waited = turn.stop and not turn.taken and micros - pass.since >= @RESERVE_AFTER_MS@ * 1000
    if has_waited and (not turn.moment or turn.moment <= time + @RESERVED_SOON_MS@) then
      reservations.make(turn.lane, turn.word, time)
    end
    limits.forget(pass.name)
    open_lanes.open(prefix, pass.name)
  end
end

-- Take the next job of a lane, or up to `most` jobs of one task that follow each other; `busy` of its jobs occupy it. Answers whether
-- the lane may continue.
local function take_turn(lane, most, busy)
  turn.lane, turn.list, turn.internal, turn.busy = lane, 'lane:' .. lane, is_internal(lane), busy
  turn.popped, turn.taken, turn.stop, turn.moment = 0, nil, nil, nil
  turn.pass = has_limits() and passes.take(lane) or nil
  turn.entered = turn.pass ~= nil
  local limited_to = lane_limits.of(lane)
  local goal = #jobs + (limited_to == 1 and most or math.min(most, limited_to - turn.busy))
  while #jobs < goal and looked < limit + @MAX_LOOK@ and (turn.popped == 0 or read < @MAX_CALL_BYTES@) do
    local entry = ask('LPOP', turn.list)
    if not entry then break end
    looked, turn.popped = looked + 1, turn.popped + 1
    if not take_entry(entry) then break end
  end
  unlaned = unlaned + turn.popped
  if turn.pass or turn.stop then end_turn() end
  if turn.stop then return false end
  if turn.busy >= limited_to and not refused then return false end
  if call('EXISTS', key(turn.list)) == 1 then
    if refused then turns.add({ lane }, true) end
    return not refused
  elseif turn.busy == 0 and not turn.internal then
    lane_limits.set(lane, 1)
  end
  return false
end

-- Let the lanes of a share take their turns: as many as its weight. Answers whether the share may continue, and whether that is
-- still its turn: a turn may take several claims, and `meta.credit` has what is left of it.
local function take_share(share, goal)
  local list = 'share:' .. share
  turns.serving = key(list)
  local weight = redis.pcall('HGET', shared_key('shares'), share)
  local left = type(weight) == 'string' and tonumber(weight) or 1
  local weighs = left > 1
  if weighs then
    local name, credit = string.match(call('HGET', key('meta'), 'credit') or '', '^(%S+) (%d+)$')
    if name == share then left = math.min(left, tonumber(credit)) end
  end
  while left > 0 and #jobs < goal do
    local lane = ask('LPOP', list)
    if not lane then break end
    left = left - 1
    if take_turn(lane, 1, 0) then call('RPUSH', key(list), lane) end
    if refused then break end
  end
  turns.serving = nil
  local continues = call('EXISTS', key(list)) == 1
  local stays = weighs and continues and left > 0 and #jobs >= goal
  if stays then
    call('HSET', key('meta'), 'credit', share .. ' ' .. left)
  elseif weighs then
    call('HDEL', key('meta'), 'credit')
  end
  return continues, stays
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
    local on, left, busy = {}, {}, call('HMGET', key('lanes'), unpack(popped))
    for n, lane in ipairs(popped) do
      local share = string.match(lane, '^%$(.*)$')
      if #jobs >= goal or has_looked_enough() then
        table.insert(left, 1, lane)
      elseif share then
        local continues, stays = take_share(share, goal)
        if stays then
          table.insert(left, 1, lane)
        elseif continues then
          on[#on + 1] = lane
        end
      elseif take_turn(lane, math.min(of_lane, goal - #jobs), tonumber(busy[n] or 0)) then
        on[#on + 1] = lane
      end
    end
    note_occupied()
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
