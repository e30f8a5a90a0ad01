-- lib silence: which workers are dead. `holders` has the deadline of each worker that holds jobs, `suspects` the time
-- when a worker was first found past it. How an engine takes jobs from a dead worker is its own (`collect`,
-- `release_claims`).
--@include layout nearest

-- Redis' clock was set back by this many ms: deadlines written before would hide dead workers for that time. The
-- deadline of the calling worker (`beating`) was written just now.
local function rewind(by, beating)
  for _, worker in ipairs(call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)) do
    if worker ~= beating then call('ZINCRBY', key('holders'), -by, worker) end
  end
  call('DEL', key('suspects'))
end

-- Note the time of a call of a worker: `meta.seen` is the time of the last one. Answers until when no worker is
-- declared dead, when the outage before that began, and by how much the clock was set back, 0 as a rule. Answers nil
-- and changes nothing when a newer release has written to the queue: its claims may have another form, so only its own
-- workers take jobs back.
local function note_activity(config, time, beating)
  local meta = call('HMGET', key('meta'), 'seen', 'amnesty', 'before', 'layout')
  if meets_newer_layout(meta[4]) then return nil end
  local seen, amnesty, before = tonumber(meta[1] or time), tonumber(meta[2] or 0), tonumber(meta[3] or 0)
  local back = 0
  if time < seen - 1000 then
    rewind(seen - time, beating)
    call('HDEL', key('meta'), 'amnesty', 'before')
    amnesty, back = 0, seen - time
  elseif time - seen > config.outage then
    amnesty, before = time + config.amnesty, seen
  end
  if amnesty > time then
    call('HSET', key('meta'), 'seen', time, 'amnesty', amnesty, 'before', before)
  else
    call('HSET', key('meta'), 'seen', time)
  end
  return amnesty, before, back
end

-- Declare workers dead in two steps, a grace period apart: a live worker clears the suspicion with its next heartbeat.
-- Right after an outage only workers that were silent long before it (`before`: when it began) are declared dead: else
-- workers that call only now and then would never notice a dead one. Answers the jobs released, when to look again, and
-- whether dead workers still hold jobs: a claim would take a later one of them before an earlier one.
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
    if deadline > before - config.outage then verdict = math.max(verdict, amnesty) end
    -- All jobs of a worker or none, for the order. An engine may release a part of them: the latest claims, so that the
    -- others come before them. The worker stays dead until its last job is released.
    if time >= verdict and #entries < limit then
      dead[#dead + 1] = worker
      collect(entries, worker, true)
    elseif not again or verdict < again then
      again = verdict
    end
  end
  local reclaimed, rest = release_claims(config, time, dead, entries)
  return reclaimed, rest and time or again, rest
end

-- Milliseconds until something more is due: a worker's deadline, the end of a grace period (`again`), or what the
-- engine knows of (`due`, the earliest). -1: nothing is known.
local function until_next(time, again, due)
  local lapse = call('ZRANGEBYSCORE', key('holders'), '(' .. time, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return ms_until(time, again, due, lapse)
end
