-- lib tend: what is due, whoever comes by: scheduled jobs whose time has come, and the jobs of workers that died.

-- The one way back to the front of a queue. A crash is counted; past the limit the job ends in broken.
local function put_back(config, time, id, token, worker, claimed, crashed)
  if call('HEXISTS', key('jobs'), id) == 0 then
    return
  end
  if crashed then
    local tries = call('HGET', key('tries'), id)
    local failures, crashes = counted(tries)
    crashes = crashes + 1
    call('HINCRBY', key('meta'), 'crashed', 1)
    if crashes >= config.max_crashes then
      local message = 'Its worker died or stalled ' .. crashes .. ' times while holding this job.'
      local body = cjson.encode({ type = 'Crashed', message = message, traceback = '' })
      end_badly(config, time, 'broken', id, failures, crashes, token, worker, claimed, body)
      return
    end
    local rest = tries and string.match(tries, '^%d+ %d+(.*)$') or ''
    call('HSET', key('tries'), id, failures .. ' ' .. crashes .. rest)
  end
  call('LPUSH', key('ready'), id)
end

-- Give back what a worker holds: all of it, or (`overdue`) what is past its deadline. Highest token first, since each
-- goes to the very front: the order of the claims is the order afterwards.
local function give_back(config, time, worker, crashed, limit, overdue)
  local held_key = key('held:' .. worker)
  local held = call('HGETALL', held_key)
  local entries = {}
  for i = 1, #held, 2 do
    local token, deadline, claimed = string.match(held[i + 1], '^(%d+) (%d+) (%d+)')
    deadline = tonumber(deadline) or 0
    if not overdue or (deadline > 0 and deadline <= time) then
      entries[#entries + 1] = { tonumber(token) or 0, held[i], claimed or '0' }
    end
  end
  table.sort(entries, function(a, b) return a[1] > b[1] end)
  local moved = math.min(#entries, limit)
  for i = 1, moved do
    local token, id, claimed = entries[i][1], entries[i][2], entries[i][3]
    put_back(config, time, id, digits(token), worker, claimed, crashed)
    call('HDEL', held_key, id)
  end
  if moved > 0 then
    wake_one()
  end
  if call('EXISTS', held_key) == 0 then
    call('ZREM', key('holders'), worker)
    call('ZREM', key('suspects'), worker)
  end
  return moved
end

local function promote(time, limit)
  local due = call('ZRANGEBYSCORE', key('scheduled'), '-inf', time, 'LIMIT', 0, limit)
  if #due > 0 then
    call('RPUSH', key('ready'), unpack(due))
    call('ZREM', key('scheduled'), unpack(due))
    wake_one()
  end
  return #due
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
  local moved, again = 0, nil
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
    if time >= verdict and moved < limit then
      moved = moved + give_back(config, time, worker, true, limit - moved, false)
    elseif not again or verdict < again then
      again = verdict
    end
  end
  return moved, again
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
