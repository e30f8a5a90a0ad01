-- lib tend: what is due, whoever comes by: retries whose time has come, leases that have ended, workers that died.

-- The one way back to the front of a queue, for entries {id, claim, crashed} with the highest token first: each goes to
-- the very front, so the order of the claims is the order afterwards. Past the limit of crashes a job ends in broken.
local function put_back(config, time, entries)
  local front, crashed = {}, 0
  for _, entry in ipairs(entries) do
    local id, claim = entry[1], entry[2]
    local data = call('MGET', key('item:' .. id))[1]
    local mine = stands(id, claim, lease_of(id))
    forget_claim(id, claim)
    if data and mine then
      local tries = call('HGET', key('attempts'), id)
      local failures, crashes = counted(tries, claim.hash)
      if entry[3] then
        crashes, crashed = crashes + 1, crashed + 1
      end
      local listed = leave_processing(id)
      if entry[3] and crashes >= config.max_crashes and claim.kind ~= 'n' then
        local message = 'What ran this job died or stalled ' .. crashes .. ' times.'
        local body = cjson.encode({ type = 'Crashed', message = message, traceback = '' })
        end_badly(config, time, 'broken', id, data, failures, crashes, claim.token, claim.worker, claim.claimed, body)
      else
        if entry[3] then
          call('HSET', key('attempts'), id, attempts_text(failures, crashes, claim.hash, last_error(tries)))
        end
        end_lease(id)
        -- Somebody else's cleaner may have put it into the queue already, when the lease had ended.
        if listed or not call('LPOS', key('queue'), id) then
          front[#front + 1] = id
        end
      end
    end
  end
  if crashed > 0 then
    call('HINCRBY', key('meta'), 'crashed', crashed)
  end
  if #front > 0 then
    call('RPUSH', key('queue'), unpack(front))
  end
end

local function by_token(a, b)
  return tonumber(a[2].token) > tonumber(b[2].token)
end

-- What a worker holds, added to `entries`. With `crashed` the earliest claims count as crashed: as many as can have been
-- running, twice its slots since some may just have ended. The others were claimed ahead and did no harm.
local function collect(entries, worker, crashed)
  local ids = call('ZRANGE', key('held:' .. worker), 0, -1)
  local found = #ids > 0 and call('HMGET', key('leased'), unpack(ids)) or {}
  for n, id in ipairs(ids) do
    local claim = claim_of(found[n])
    if claim and claim.worker == worker then
      entries[#entries + 1] = { id, claim, crashed and n <= 2 * (tonumber(claim.kind) or 1000) }
    else
      call('ZREM', key('held:' .. worker), id)
    end
  end
end

-- Give these back, in one order whoever held them. Answers how many.
local function give_back(config, time, workers, entries)
  table.sort(entries, by_token)
  put_back(config, time, entries)
  for _, worker in ipairs(workers) do
    retire(worker)
  end
  return #entries
end

-- Retries whose time has come go to the end of the queue. Until then they lie in `processing` with a lease of their own
-- on the wire, so that no cleaner touches them; one that lost it was moved by somebody else, and needs nothing.
local function promote(time, limit)
  local ids = call('ZRANGEBYSCORE', key('later'), '-inf', time, 'LIMIT', 0, limit)
  for _, id in ipairs(ids) do
    call('ZREM', key('later'), id)
    local lease = lease_of(id)
    if not lease or string.sub(lease, 1, 1) == '~' then
      end_lease(id)
      if leave_processing(id) and call('EXISTS', key('item:' .. id)) == 1 then
        call('LPUSH', key('queue'), id)
      end
    end
  end
  return #ids
end

-- Leases by hand whose time is up, and kept ones whose worker does not come to an end with its job.
local function lapse(config, time, limit)
  local ids, entries = call('ZRANGEBYSCORE', key('due'), '-inf', time, 'LIMIT', 0, limit), {}
  for _, id in ipairs(ids) do
    local claim = claim_of(call('HGET', key('leased'), id))
    if claim then
      entries[#entries + 1] = { id, claim, true }
    end
    call('ZREM', key('due'), id)
  end
  local workers = {}
  for _, entry in ipairs(entries) do
    workers[#workers + 1] = entry[2].worker
  end
  return give_back(config, time, workers, entries)
end

-- Redis' clock was set back: times written before would hide dead workers for as long. That of the worker which comes by
-- (`beating`) was written just now.
local function rewind(by, beating)
  for _, worker in ipairs(call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)) do
    if worker ~= beating then
      call('ZINCRBY', key('holders'), -by, worker)
    end
  end
  for _, suffix in ipairs({ 'due', 'later' }) do
    for _, id in ipairs(call('ZRANGE', key(suffix), 0, @MAX_HELD@ - 1)) do
      call('ZINCRBY', key(suffix), -by, id)
    end
  end
  call('DEL', key('suspects'), key('unleased'), key('stray'))
end

-- Silence is judged in two steps, a grace period apart: a worker that is alive clears the suspicion with its next beat.
-- Right after an outage nobody is judged but those who were long silent before it (`before`: when it began).
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
      collect(entries, worker, true)
    elseif not again or verdict < again then
      again = verdict
    end
  end
  return give_back(config, time, dead, entries), again
end

local function first_score(suffix)
  return tonumber(call('ZRANGE', key(suffix), 0, 0, 'WITHSCORES')[2] or math.huge)
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
  reclaimed = reclaimed + lapse(config, time, limit)
  local nearest = call('ZRANGEBYSCORE', key('holders'), '(' .. time, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  nearest = math.min(again or math.huge, tonumber(nearest or math.huge), first_score('later'), first_score('due'))
  return promoted, reclaimed, nearest == math.huge and -1 or math.max(0, nearest - time)
end
