-- claim: take up to `limit` jobs from the front of a queue for a worker.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms by_hand slots of_lane alone
-- `alone`: whether the worker could run a job alone: now, beside (suspects that have run for long), soon, or no.
-- Returns: {ms until something is due or -1, {id, record, token, failures, crashes}..., {dropped id...}, how}; an
-- error, after what was due, when it finds nothing beside another program's data. `how` above 0: the job is to run alone, and for
-- `how` ms the worker claims nothing beside it; -1: one waits for this worker to be able to; else 0.
-- Invariant: a claimed job is in `held:<worker>` and no longer in line; its worker is in `holders`; its token is higher
-- than any before it; a lane has no more jobs held than it may (or, `of_lane`, that many of one task that follow each other).
--@include begin types tokens remember claimed config task back silence tend ghosts large suspects
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = configure(ARGV[3])
local limit, lease_ms, by_hand, slots = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8]
local of_lane, alone = tonumber(ARGV[9]), ARGV[10]
local held_key = key('held:' .. worker)

allow_when_full()
local again = recall(session, number)
if again then
  local how = 0
  local answer = claimed_before(again, function(id, token)
    local mine, kind = string.match(call('HGET', held_key, id) or '', '^(%d+) %d+ (%w*)')
    if mine == token then
      local failures, crashes = counted(call('HGET', key('tries'), id))
      how = claim_window(kind) or how
      return { id, call('HGET', key('jobs'), id) or '', token, failures, crashes }
    end
  end)
  answer[4] = how
  return answer
end

check_types()
local time, micros = clock()
local promoted, reclaimed, next_ms, rest = tend(config, time, math.max(config.tend, limit))
if newer_layout then
  return newer_layout_error()
end
rare = rare or promoted + reclaimed > 0
if rest then
  -- Earlier jobs of the dead are still to come back, which the next call does: none of the later ones goes before them.
  remember(session, number, cmsgpack.pack({}))
  return { 0, {}, {}, 0 }
end
if rare and (call('HGET', key('settings'), 'paused') or hold_left('', time) > 0) then
  call('DEL', key('wake'))
  remember(session, number, cmsgpack.pack({}))
  return { next_ms, {}, {}, 0 }
end

limit = math.min(limit, config.max_held - call('HLEN', held_key))
if call('ZCARD', key('holders')) >= @MAX_HOLDERS@ and not call('ZSCORE', key('holders'), worker) then
  return redis.error_reply('LHHOLDERS @MAX_HOLDERS@ workers and leases by hand hold jobs of this queue: that is the limit')
end
local jobs, claims, answer, dropped, looked = {}, {}, {}, {}, 0
local token = math.max(tonumber(call('HGET', key('meta'), 'token') or 0), micros)
local taken, took_suspects, how, read, turns = {}, false, 0, 0, 0
local has_tries = call('EXISTS', key('tries')) == 1

-- What a claim says after its token.
local claim_rest = ' ' .. time .. ' ' .. (by_hand == '1' and 'h' or slots)

local function take(id, record, failures, crashes, kind)
  taken[id] = true
  read = read + #record
  note_size(#record)
  token = token + 1
  local text, rest, shape = token_text(token), kind and by_hand ~= '1' and ' ' .. time .. ' ' .. kind or claim_rest, ''
  local equals = string.find(record, '=', 1, true)
  if equals and equals < (string.find(record, '\n', 1, true) or #record + 1) then
    shape = shape_of(string.match(record, '^[^\n]*'))
  end
  if shape ~= '' then
    rest = rest .. ' ' .. shape
    if uniques.key_of(shape) == 's' then
      uniques.free_key(shape, id, false)
    end
  end
  jobs[#jobs + 1] = { id, record, text, failures, crashes }
  claims[#claims + 1] = id
  claims[#claims + 1] = text .. rest
  answer[#answer + 1] = id
  answer[#answer + 1] = text
end

-- Suspects: one that is to run alone, or as many as may run together with those that are held.
local function take_suspects()
  if not rare or #jobs >= limit or call('EXISTS', key('isolated')) == 0 then
    return
  end
  local who = { worker = worker, slots = tonumber(slots), alone = #jobs > 0 and alone ~= 'no' and 'soon' or alone }
  local chosen, kind
  chosen, how, kind = suspects.choose(config, time, who, limit - #jobs)
  for _, one in ipairs(chosen) do
    take(one[1], one[2], one[3], one[4], kind)
    took_suspects = true
    if kind then
      note_alone(time, how, worker, jobs[#jobs][3], one[1])
    end
  end
  if how ~= 0 then
    limit = #jobs
  end
end

-- Whether this call has done enough: what waits is for the next one, which is made at once.
local function is_spent()
  return read >= @CLAIM_BYTES@ or turns >= @TURNS_MOST@
end

-- Another program's data in the place of the list of a lane or priority keeps nobody from the other lists: who finds nothing
-- in them is told.
local spoilt = not_promoted
-- Ask for entries of such a list.
local function ask(command, list, ...)
  local answer = redis.pcall(command, key(list), ...)
  if type(answer) == 'table' and answer.err then
    spoilt, answer = answer, nil
  end
  return answer or nil
end

-- The next entries of a list, `wanted` at most: as many as may be read with the bytes that are left. What was read cannot
-- be left in line again.
local function pop_some(list, wanted)
  wanted = math.min(wanted, math.max(1, math.floor((@CLAIM_BYTES@ - read) / @LARGE_BYTES@)))
  if has_large() then
    wanted = readable(ask('LRANGE', list, 0, wanted - 1) or {}, @CLAIM_BYTES@ - read)
  end
  return wanted > 0 and ask('LPOP', list, wanted) or {}
end

-- Take up to `count` jobs from the front of a list. Entries without a job must not hide what waits behind them, so it is
-- looked further, as far as one call may.
local function take_line(list, count)
  local goal = #jobs + count
  while #jobs < goal and looked < limit + @MAX_LOOK@ and read < @CLAIM_BYTES@ do
    local popped = pop_some(list, goal - #jobs)
    if #popped == 0 then
      return
    end
    looked = looked + #popped
    local records = call('HMGET', key('jobs'), unpack(popped))
    local tries = has_tries and call('HMGET', key('tries'), unpack(popped)) or {}
    for i, id in ipairs(popped) do
      local failures, crashes, doubtful = counted(tries[i])
      read = read + (tries[i] and #tries[i] or 0)
      if not is_ghost(ghost_in(list, id)) then
        if not records[i] or taken[id] then
          dropped[#dropped + 1] = id
        elseif doubtful >= config.isolate then
          call('RPUSH', key('isolated'), id)
          rare = true
        else
          take(id, records[i], failures, crashes)
        end
      end
    end
  end
end

-- Jobs of lanes and of priorities, and those that have neither, in their turns.
local function take_in_turn()
  local chosen = call('HMGET', key('meta'), 'turn', 'passed', 'level')
  local unlaned, stuck = 0, {}

  -- Take the next of a lane whose turn it is: one, or up to `most` that go together. Answers whether its next may run, too.
  local function take_turn(lane, most)
    local list, busy, limited = 'lane:' .. lane, shapes.busy_of(lane), shapes.limit_of(lane)
    local first, goal, popped = nil, #jobs + (limited == 1 and most or math.min(most, limited - busy)), 0
    while #jobs < goal and looked < limit + @MAX_LOOK@ and (popped == 0 or read < @MAX_CALL_BYTES@) do
      local entry = ask('LPOP', list)
      if not entry then
        break
      end
      looked, popped = looked + 1, popped + 1
      local id, rank = shapes.entry_of(entry)
      if not is_ghost(ghost_in(list, id)) then
        local record = call('HGET', key('jobs'), id)
        local failures, crashes, doubtful = counted(has_tries and call('HGET', key('tries'), id))
        if not record or taken[id] then
          dropped[#dropped + 1] = id
        elseif first and (task_of(record) ~= first or doubtful >= config.isolate) then
          call('LPUSH', key(list), entry)
          popped = popped - 1
          break
        else
          shapes.occupy(lane, id, rank or digits(token + 1))
          busy = busy + 1
          if doubtful >= config.isolate then
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
      if popped == 0 and busy < limited then
        stuck[#stuck + 1] = lane
        return false
      end
      return busy < limited
    elseif busy == 0 then
      call('HDEL', key('limits'), lane)
    end
    return false
  end

  -- Up to `count` jobs of lanes, one lane after the other. A lane that may run on goes to the end of the line of lanes.
  -- A turn takes several times as long as a job that is just next in line, so one call has a number of them.
  local function take_lanes(count)
    local goal = #jobs + count
    while #jobs < goal and looked < limit + @MAX_LOOK@ and not is_spent() do
      local lanes = call('LPOP', key('turns'), math.min(goal - #jobs, @TURNS_MOST@ - turns)) or {}
      if #lanes == 0 then
        return
      end
      turns = turns + #lanes
      local on, left = {}, {}
      for _, lane in ipairs(lanes) do
        if #jobs >= goal or looked >= limit + @MAX_LOOK@ or read >= @CLAIM_BYTES@ then
          table.insert(left, 1, lane)
        elseif take_turn(lane, math.min(of_lane, goal - #jobs)) then
          on[#on + 1] = lane
        end
      end
      if #on > 0 then
        call('RPUSH', key('turns'), unpack(on))
      end
      if #left > 0 then
        call('LPUSH', key('turns'), unpack(left))
      end
    end
  end

  -- Jobs without a lane and jobs of lanes take turns, so that neither waits for all of the other.
  local function take_both(count)
    if call('EXISTS', key('turns')) == 0 then
      return take_line('ready', count)
    elseif call('EXISTS', key('ready')) == 0 then
      return take_lanes(count)
    end
    local goal, lanes_first = #jobs + count, chosen[1] == '1'
    call('HSET', key('meta'), 'turn', lanes_first and 0 or 1)
    if lanes_first then
      take_lanes(math.ceil(count / 2))
      take_line('ready', goal - #jobs)
      take_lanes(goal - #jobs)
    else
      take_line('ready', math.ceil(count / 2))
      take_lanes(goal - #jobs)
      take_line('ready', goal - #jobs)
    end
  end

  -- Up to `count` jobs of one priority.
  local function take_level(level, count)
    if level == 0 then
      return take_both(count)
    end
    take_line('ready:' .. level, count)
    if call('EXISTS', key('ready:' .. level)) == 0 then
      call('ZREM', key('priorities'), level)
    end
  end

  -- The priorities of which something waits, the highest first.
  local function waiting_levels()
    local levels, common = {}, call('EXISTS', key('ready'), key('turns')) > 0
    for _, level in ipairs(call('ZREVRANGE', key('priorities'), 0, -1)) do
      if common and tonumber(level) < 0 then
        levels[#levels + 1], common = 0, false
      end
      levels[#levels + 1] = tonumber(level)
    end
    if common then
      levels[#levels + 1] = 0
    end
    return levels
  end

  -- Which of the lower priorities comes after the one that was served last.
  local function next_lower(levels, served)
    for turn = 2, #levels do
      if levels[turn] < served then
        return turn
      end
    end
    return 2
  end

  -- The highest first; but of every so many jobs one is of a lower priority that waits, each of these in its turn.
  local function take_levels()
    local levels = waiting_levels()
    local passed, served = tonumber(chosen[2] or 0), tonumber(chosen[3] or -1000)
    while #jobs < limit and #levels > 0 and not is_spent() do
      local turn, count, before = 1, limit - #jobs, #jobs
      local is_low = #levels > 1 and passed >= @PRIORITY_TURN@ - 1
      if is_low then
        turn, count = next_lower(levels, served), 1
      elseif #levels > 1 then
        count = math.min(count, @PRIORITY_TURN@ - 1 - passed)
      end
      take_level(levels[turn], count)
      local took = #jobs - before
      if is_low and took > 0 then
        passed, served = 0, levels[turn]
      elseif not is_low and #levels > 1 then
        passed = passed + took
      end
      if took < count and not is_spent() then
        table.remove(levels, turn)
      end
    end
    call('HSET', key('meta'), 'passed', passed, 'level', served)
  end

  if call('EXISTS', key('priorities')) == 1 then
    take_levels()
  else
    take_both(limit - #jobs)
  end
  if #stuck > 0 then
    call('RPUSH', key('turns'), unpack(stuck))
  end
  if unlaned > 0 then
    call('HINCRBY', key('meta'), 'laned', 0 - unlaned)
  end
end

take_suspects()
if rare and #jobs < limit then
  take_in_turn()
elseif #jobs < limit then
  take_line('ready', limit - #jobs)
end
take_suspects()
if #jobs > 16 and by_hand ~= '1' then
  -- Redis keeps a hash of short values as a list, and searches that from its front. One long value makes it a table: zeros
  -- before the number of slots change nothing of it.
  claims[2] = string.gsub(claims[2], '^%d+ %d+ ', '%0' .. string.rep('0', 50), 1)
end
if #jobs > 0 then
  call('HSET', held_key, unpack(claims))
  call('ZADD', key('holders'), time + lease_ms, worker)
  call('ZREM', key('suspects'), worker)
  call('HSET', key('meta'), 'token', digits(token))
end
if spoilt and #jobs == 0 and next_ms ~= 0 then
  return spoilt
end
local waiting = call('EXISTS', key('ready'), key('turns'), key('priorities')) > 0
local isolated = rare and call('EXISTS', key('isolated')) == 1
if not waiting and not isolated then
  call('DEL', key('wake'))
  lay_ghosts()
elseif (waiting and (#jobs > 0 or looked == 0)) or (isolated and took_suspects) then
  wake_one()
elseif waiting then
  next_ms = 0
end
if waiting and is_spent() then
  next_ms = 0
end
remember(session, number, cmsgpack.pack(answer))
return { next_ms, jobs, dropped, how }
