-- lib tend: what is due, whoever comes by: scheduled jobs whose time has come, and the jobs of workers that died.

-- The one way back to the front of a queue, for entries {token, id, claimed, worker, crashed, shape} with the highest token
-- first: each goes to the very front, so the order of the claims is the order afterwards. Past the limit of crashes a job
-- ends in broken; one that has crashed before goes to `isolated`; one that is to be cancelled ends so. One of a lane goes
-- back into it: a claim isolates it when it is its turn, so that of several that were held together only one runs.
local function put_back(config, time, entries)
  local ids, front, isolated, counts, crashed = {}, {}, {}, {}, 0
  for n, entry in ipairs(entries) do
    ids[n] = entry[2]
  end
  local tries = call('EXISTS', key('tries')) == 1 and #ids > 0 and call('HMGET', key('tries'), unpack(ids)) or {}
  for n, entry in ipairs(entries) do
    local token, id, claimed, worker = digits(entry[1]), entry[2], entry[3], entry[4]
    if call('HEXISTS', key('jobs'), id) == 1 then
      local failures, crashes = counted(tries[n])
      local asked = cancel_asked(id)
      if entry[5] then
        if entry[6] ~= '' and shapes.word(entry[6], 'k') and time - tonumber(claimed) > @PERSISTENT_STEADY_MS@ then
          crashes = 0
        end
        crashes, crashed = crashes + 1, crashed + 1
      end
      if asked then
        end_badly(config, time, 'cancelled', id, failures, crashes, token, worker, claimed, asked)
      elseif entry[5] and crashes >= config.max_crashes then
        local message = 'What ran this job died or stalled ' .. crashes .. ' times.'
        local body = cjson.encode({ type = 'Crashed', message = message, traceback = '' })
        end_badly(config, time, 'broken', id, failures, crashes, token, worker, claimed, body)
      else
        clear_notes(id)
        if entry[5] then
          counts[#counts + 1] = id
          counts[#counts + 1] = failures .. ' ' .. crashes .. (string.match(tries[n] or '', '^%d+ %d+(.*)$') or '')
        end
        local lane = entry[6] ~= '' and shapes.word(entry[6], 'l')
        if crashes >= config.isolate and not lane then
          isolated[#isolated + 1] = id
        elseif lane or entry[6] ~= '' and shapes.word(entry[6], 'p') then
          shapes.place(id, entry[6], true)
        else
          front[#front + 1] = id
        end
      end
    end
  end
  if crashed > 0 then
    call('HINCRBY', key('meta'), 'crashed', crashed)
  end
  if #counts > 0 then
    call('HSET', key('tries'), unpack(counts))
  end
  if #front > 0 then
    call('LPUSH', key('ready'), unpack(front))
  end
  if #isolated > 0 then
    call('LPUSH', key('isolated'), unpack(isolated))
  end
  if #front > 0 or #isolated > 0 then
    wake_one()
  end
end

-- A worker that holds nothing needs no heartbeat.
local function retire(worker)
  if call('EXISTS', key('held:' .. worker)) == 0 then
    call('ZREM', key('holders'), worker)
    call('ZREM', key('suspects'), worker)
  end
end

local function by_token(a, b)
  return a[1] < b[1]
end

-- What a worker holds, added to `entries`: all of it, or (`overdue`) what is past its deadline. With `crashed` the earliest
-- claims count as crashed: as many as can have been running, twice its slots since some may just have ended. The others
-- were claimed ahead and did no harm.
local function collect(entries, worker, time, overdue, crashed)
  local held, mine = call('HGETALL', key('held:' .. worker)), {}
  for i = 1, #held, 2 do
    local token, deadline, claimed, slots, shape = string.match(held[i + 1], '^(%d+) (%d+) (%d+) ?(%w*) ?(.*)$')
    deadline = tonumber(deadline) or 0
    if not overdue or (deadline > 0 and deadline <= time) then
      mine[#mine + 1] = { tonumber(token) or 0, held[i], claimed or '0', worker, tonumber(slots) or @MAX_HELD@, shape or '' }
    end
  end
  table.sort(mine, by_token)
  for n, entry in ipairs(mine) do
    entry[5] = crashed and (overdue or n <= 2 * entry[5])
    entries[#entries + 1] = entry
  end
end

-- Give back these claims of these workers, in one order whoever held them. Answers how many.
local function give_back(config, time, workers, entries)
  table.sort(entries, function(a, b) return by_token(b, a) end)
  put_back(config, time, entries)
  for _, entry in ipairs(entries) do
    call('HDEL', key('held:' .. entry[4]), entry[2])
  end
  for _, worker in ipairs(workers) do
    retire(worker)
  end
  return #entries
end

local function promote(time, limit)
  local due = call('ZRANGEBYSCORE', key('scheduled'), '-inf', time + 0.5, 'WITHSCORES', 'LIMIT', 0, limit)
  if #due == 0 then
    return 0
  end
  local ids, plain = {}, {}
  for i = 1, #due, 2 do
    ids[#ids + 1] = due[i]
    local shape = tonumber(due[i + 1]) % 1 == 0 and '' or shape_of(call('HGET', key('jobs'), due[i]))
    if shape == '' or not shapes.word(shape, 'l') and not shapes.word(shape, 'p') then
      plain[#plain + 1] = due[i]
    else
      shapes.place_again(due[i], shape)
    end
  end
  if #plain > 0 then
    call('RPUSH', key('ready'), unpack(plain))
    wake_one()
  end
  call('ZREM', key('scheduled'), unpack(ids))
  return #ids
end

-- Redis' clock was set back: deadlines written before would hide dead workers for as long. That of the worker which
-- comes by (`beating`) was written just now.
local function rewind(by, beating)
  for _, worker in ipairs(call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)) do
    if worker ~= beating then
      call('ZINCRBY', key('holders'), -by, worker)
    end
  end
  call('DEL', key('suspects'))
end

-- Silence is judged in two steps, a grace period apart: a worker that is alive clears the suspicion with its next beat.
-- Right after an outage nobody is judged but those who were long silent before it (`before`: when it began): else
-- workers that only come by now and then would forgive a dead one for ever.
-- Answers jobs given back, and when to look again.
local function reap(config, time, amnesty, before, limit)
  local lapsed = call('ZRANGEBYSCORE', key('holders'), '-inf', time, 'WITHSCORES', 'LIMIT', 0, 100)
  local dead, entries, again = {}, {}, nil
  for i = 1, #lapsed, 2 do
    local worker, deadline = lapsed[i], tonumber(lapsed[i + 1])
    local since = tonumber(call('ZSCORE', key('suspects'), worker) or nil)
    if not since then
      since = time
      call('ZADD', key('suspects'), time, worker)
    end
    local verdict = since + config.grace
    if deadline > before - config.outage then
      verdict = math.max(verdict, amnesty)
    end
    -- All of a worker or nothing: a part would come back in the wrong order. What one may hold is limited.
    if time >= verdict and #entries < limit then
      dead[#dead + 1] = worker
      collect(entries, worker, time, false, true)
    elseif not again or verdict < again then
      again = verdict
    end
  end
  return give_back(config, time, dead, entries), again
end

-- Do what is due and answer: promoted, reclaimed, milliseconds until something more is due (-1: nothing known).
-- `meta.seen` is the last time that anybody came by.
local function tend(config, time, limit, beating)
  local meta = call('HMGET', key('meta'), 'seen', 'amnesty', 'before')
  local seen, amnesty, before = tonumber(meta[1] or time), tonumber(meta[2] or 0), tonumber(meta[3] or 0)
  if time < seen - 1000 then
    rewind(seen - time, beating)
    call('HDEL', key('meta'), 'amnesty', 'before')
    amnesty = 0
  elseif time - seen > config.outage then
    amnesty, before = time + config.amnesty, seen
  end
  if amnesty > time then
    call('HSET', key('meta'), 'seen', time, 'amnesty', amnesty, 'before', before)
  else
    call('HSET', key('meta'), 'seen', time)
  end
  local promoted = promote(time, limit)
  local reclaimed, again = reap(config, time, amnesty, before, limit)
  local due = call('ZRANGE', key('scheduled'), 0, 0, 'WITHSCORES')[2]
  local lapse = call('ZRANGEBYSCORE', key('holders'), '(' .. time, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local nearest = math.min(again or math.huge, tonumber(due or math.huge), tonumber(lapse or math.huge))
  return promoted, reclaimed, nearest == math.huge and -1 or math.max(0, nearest - time)
end
