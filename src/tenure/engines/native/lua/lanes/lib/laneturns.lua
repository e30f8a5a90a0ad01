-- lib laneturns: take jobs of lanes, lane by lane in their turns.
-- Defines: lane_turns. Redis: reads and writes.
--@include picks task turns lanelimits
local lane_turns = {}
do
  local my = lane_turns

  -- Whether a limit stops a job. Then its lane waits at the gate of the limit.
  local function is_stopped(claim, turn, record)
    local shape = has_limits() and shape_of(record) or ''
    if not has_places(shape) then return false end
    local word = shapes.word(shape, 'm')
    local name, moment = starts.stopped_by(word, turn.entered, claim.time, claim.micros, turn.lane)
    if type(name) == 'table' then
      claim.refused = name
    elseif name then
      turn.stop, turn.moment, turn.word = name, moment, word
    end
    turn.entered = true
    return name ~= nil
  end

  -- Take the job of an entry, which has been popped, of the lane that has its turn. Return whether the turn may
  -- continue.
  local function take_entry(claim, turn, entry)
    local id, rank = lanes.entry_of(entry)
    if is_tombstone(turn.list, id) then return true end
    local record = call('HGET', key('jobs'), id)
    local failures, crashes, doubtful = counted(picks.has_tries(claim) and call('HGET', key('tries'), id))
    local is_suspect = doubtful > 0 and doubtful >= claim.isolate
    if not record or claim.ids[id] then
      claim.dropped[#claim.dropped + 1] = id
      return true
    end
    local is_other = turn.taken and (task_of(record) ~= task_of(turn.taken) or is_suspect)
    if is_other or not is_suspect and is_stopped(claim, turn, record) then
      call('LPUSH', key(turn.list), entry)
      turn.popped = turn.popped - 1
      return false
    end
    if not turn.internal then
      local occupied, texts = claim.occupied, claim.busy_texts
      occupied[#occupied + 1] = turn.lane
      texts[#texts + 1], texts[#texts + 2] = id, (rank or token_text(claim.token + 1)) .. ' ' .. turn.lane
      turn.busy = turn.busy + 1
    end
    if is_suspect then
      call('RPUSH', key('isolated'), id)
      claim.isolates = true
      return false
    end
    picks.take(claim, id, record, failures, crashes)
    turn.taken = record
    return true
  end

  -- The end of a turn under limits. An opened lane that has used nothing of its limit gives its chance to the next one.
  local function end_turn(claim, turn)
    local pass = turn.pass
    picks.occupy(claim)
    if turn.stop then
      limits.forget(turn.stop)
      gates.shut(turn.lane, turn.stop, turn.moment, pass and not turn.taken and pass.since)
    end
    if not pass or turn.stop == pass.name then return end
    local word = turn.taken and shapes.word(shape_of(turn.taken), 'm') or ''
    if not string.find(',' .. word, ',' .. pass.name .. ':', 1, true) then
      -- It lacks the place of another limit. After a while its places are kept free for it.
      local has_waited = turn.stop and not turn.taken and claim.micros - pass.since >= @RESERVE_AFTER_MS@ * 1000
      if has_waited and (not turn.moment or turn.moment <= claim.time + @RESERVED_SOON_MS@) then
        reservations.make(turn.lane, turn.word, claim.time)
      end
      limits.forget(pass.name)
      open_lanes.open(prefix, pass.name)
    end
  end

  -- The current turn. One table serves all turns of a call, since a table takes longer than a turn needs.
  local turn = {}

  -- Take the next job of a lane, or up to `most` jobs of one task that follow each other; `busy` of its jobs occupy it.
  -- Return whether the lane may continue.
  local function take_turn(claim, lane, most, busy)
    turn.lane, turn.list, turn.internal, turn.busy = lane, 'lane:' .. lane, is_internal(lane), busy
    turn.popped, turn.taken, turn.stop, turn.moment = 0, nil, nil, nil
    turn.pass = has_limits() and passes.take(lane) or nil
    turn.entered = turn.pass ~= nil
    local limited_to = lane_limits.of(lane)
    local goal = #claim.jobs + (limited_to == 1 and most or math.min(most, limited_to - turn.busy))
    while #claim.jobs < goal and claim.looked < claim.limit + @MAX_LOOK@
      and (turn.popped == 0 or claim.read < @MAX_CALL_BYTES@) do
      local entry = picks.ask(claim, 'LPOP', turn.list)
      if not entry then break end
      claim.looked, turn.popped = claim.looked + 1, turn.popped + 1
      if not take_entry(claim, turn, entry) then break end
    end
    claim.unlaned = claim.unlaned + turn.popped
    if turn.pass or turn.stop then end_turn(claim, turn) end
    if turn.stop then return false end
    if turn.busy >= limited_to and not claim.refused then return false end
    if call('EXISTS', key(turn.list)) == 1 then
      if claim.refused then turns.add({ lane }, true) end
      return not claim.refused
    elseif turn.busy == 0 and not turn.internal then
      lane_limits.set(lane, 1)
    end
    return false
  end

  -- Let the lanes of a share take their turns: as many as its weight. Return whether the share may continue, and
  -- whether it is still the share's turn: a turn may take several claims, and `meta.credit` has what is left of it.
  local function take_share(claim, share, goal)
    local list = 'share:' .. share
    turns.serving = key(list)
    local weight = redis.pcall('HGET', shared_key('shares'), share)
    local left = type(weight) == 'string' and tonumber(weight) or 1
    local weighs = left > 1
    if weighs then
      local name, credit = string.match(call('HGET', key('meta'), 'credit') or '', '^(%S+) (%d+)$')
      if name == share then left = math.min(left, tonumber(credit)) end
    end
    while left > 0 and #claim.jobs < goal do
      local lane = picks.ask(claim, 'LPOP', list)
      if not lane then break end
      left = left - 1
      if take_turn(claim, lane, 1, 0) then call('RPUSH', key(list), lane) end
      if claim.refused then break end
    end
    turns.serving = nil
    local continues = call('EXISTS', key(list)) == 1
    local stays = weighs and continues and left > 0 and #claim.jobs >= goal
    if stays then
      call('HSET', key('meta'), 'credit', share .. ' ' .. left)
    elseif weighs then
      call('HDEL', key('meta'), 'credit')
    end
    return continues, stays
  end

  -- Take up to `count` jobs of lanes. A lane that may continue goes to the end of `turns`. A turn takes several times
  -- as long as a job of `ready`, so a claim has a limited number of them.
  function my.take(claim, count)
    local goal = #claim.jobs + count
    while #claim.jobs < goal and not picks.has_looked_enough(claim) and not picks.is_spent(claim) do
      local popped = call('LPOP', key('turns'), math.min(goal - #claim.jobs, @TURNS_MOST@ - claim.turned)) or {}
      if #popped == 0 then return end
      claim.turned = claim.turned + #popped
      local on, left, busy = {}, {}, call('HMGET', key('lanes'), unpack(popped))
      for n, lane in ipairs(popped) do
        local share = string.match(lane, '^%$(.*)$')
        if #claim.jobs >= goal or picks.has_looked_enough(claim) then
          table.insert(left, 1, lane)
        elseif share then
          local continues, stays = take_share(claim, share, goal)
          if stays then
            table.insert(left, 1, lane)
          elseif continues then
            on[#on + 1] = lane
          end
        elseif take_turn(claim, lane, math.min(claim.of_lane, goal - #claim.jobs), tonumber(busy[n] or 0)) then
          on[#on + 1] = lane
        end
      end
      picks.occupy(claim)
      if #on > 0 then call('RPUSH', key('turns'), unpack(on)) end
      if #left > 0 then call('LPUSH', key('turns'), unpack(left)) end
    end
  end
end
