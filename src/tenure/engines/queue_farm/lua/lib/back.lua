-- lib back: batches that Tenure workers hold, and how they return to the front of their lanes.
-- `claims` lane -> token fetchAt claimed size worker, `held:<worker>` id -> token claimed kind attempts place lane
--@include jobs retire crash

local function lease_of(worker, id)
  local text = redis.pcall('HGET', key('held:' .. worker), id)
  if type(text) ~= 'string' then return nil end
  local token, claimed, kind, attempts, at, lane = string.match(text, '^(%d+) (%d+) (%w+) (%d+) (%d+) (.*)$')
  if not token then return nil end
  return { token = token, claimed = claimed, kind = kind, attempts = attempts, at = tonumber(at), lane = lane,
    worker = worker, id = id }
end

local function batch_of(lane)
  local text = call('HGET', key('claims'), lane)
  if not text then return nil end
  local token, fetched, claimed, size, worker = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
  if not token then return nil end
  return { token = token, fetched = fetched, claimed = claimed, size = tonumber(size), worker = worker, lane = lane }
end

local function write_batch(batch)
  local text = table.concat({ batch.token, batch.fetched, batch.claimed, batch.size, batch.worker }, ' ')
  call('HSET', key('claims'), batch.lane, text)
end

-- Let original clients find the batch fetched at this time, and note what was written.
local function write_fetch(batch, ms)
  batch.fetched = digits(ms)
  call('SET', fetch_key(batch.lane), batch.fetched)
  write_batch(batch)
end

-- The token under which a worker holds a job; nil when it does not.
local function token_of(worker, id)
  local lease = lease_of(worker, id)
  return lease and lease.token
end

-- The leases that a worker holds, by lane, each lane in its order.
local function held_lanes(worker)
  local lanes, order, ids = {}, {}, redis.pcall('HKEYS', key('held:' .. worker))
  for _, id in ipairs(ids.err and {} or ids) do
    local lease = lease_of(worker, id)
    if not lease then
      call('HDEL', key('held:' .. worker), id) -- another program wrote it
    else
      if not lanes[lease.lane] then
        lanes[lease.lane] = { token = lease.token, lane = lease.lane, worker = worker }
        order[#order + 1] = lanes[lease.lane]
      end
      table.insert(lanes[lease.lane], lease)
    end
  end
  for _, leases in ipairs(order) do table.sort(leases, function(a, b) return a.at < b.at end) end
  table.sort(order, function(a, b) return tonumber(a.token) < tonumber(b.token) end)
  return order
end

-- Whether the batch of these leases is still the worker's: an original client that takes it over writes its own
-- fetchAt, and counts an attempt; one that ends it late takes its ids out of the list. Returns the batch.
local function standing(leases)
  local batch = batch_of(leases.lane)
  if not batch or batch.token ~= leases.token or batch.worker ~= leases.worker then return nil end
  if redis.pcall('GET', fetch_key(leases.lane)) ~= batch.fetched then return nil end
  local active = {}
  for _, id in ipairs(active_ids(leases.lane)) do active[id] = true end
  for _, lease in ipairs(leases) do
    local attempts = redis.pcall('HGET', job_key(lease.id), 'attempts')
    -- Without its hash the job was deleted while it ran, by an original client: it may end.
    if not active[lease.id] or attempts and attempts ~= lease.attempts then return nil end
  end
  return batch
end

-- The worker holds these leases no longer. Its batch ends with them, if it is still this one.
local function forget_leases(leases)
  for _, lease in ipairs(leases) do call('HDEL', key('held:' .. leases.worker), lease.id) end
  local batch = batch_of(leases.lane)
  if batch and batch.token == leases.token then call('HDEL', key('claims'), leases.lane) end
end

-- The leases were lost: the lane is an original client's now, or free.
local function lose(config, time, leases)
  forget_leases(leases)
  if not batch_of(leases.lane) then place(config, time, leases.lane) end
end

-- Take jobs out of the active batch of a lane.
local function leave_active(lane, ids)
  for _, id in ipairs(ids) do call('LREM', active_key(lane), 1, id) end
end

-- Return ids to the front of their lane: the first of them is the next.
local function to_front(lane, ids)
  for n = #ids, 1, -1 do call('RPUSH', queue_key(lane), ids[n]) end
end

-- Count a crash of a job: see lib crash. Returns whether it ended the job, and its doubtful crashes.
local function count_crash(config, time, lease, how)
  local job = job_of(lease.id)
  count('crashed')
  if not job then return false, 0 end
  job.crashes, job.doubtful = job.crashes + 1, job.doubtful + (is_own(how) and 0 or 1)
  if not is_limit(config, how, job.crashes, job.doubtful) then
    call('HSET', job_key(lease.id), 'tenure:crashes', job.crashes, 'tenure:known', job.crashes - job.doubtful)
    return false, job.doubtful
  end
  local failures = math.max(0, job.deliveries - job.crashes)
  local who = { worker = lease.worker, token = lease.token, started = lease.claimed }
  end_badly(config, time, 'broken', lease.id, job, lease.lane, failures, crash_body(job.crashes), who)
  return true, job.doubtful
end

-- A delivery that did not count: no attempt is left of it.
local function uncount_attempt(id)
  if call('EXISTS', job_key(id)) == 1 then call('HINCRBY', job_key(id), 'attempts', -1) end
end

-- Release the batch of these leases to the front of its lane, which has no turn then. Returns how many jobs came back,
-- and whether the next one of the lane is to run alone. `alone`: a job that ran alone is the only one to blame.
local function release(config, time, leases, alone)
  if not standing(leases) then
    lose(config, time, leases)
    return 0
  end
  local ids, all, is_lonely = {}, {}, false
  for n, lease in ipairs(leases) do
    all[n] = lease.id
    local how, is_over, doubtful = lease.crashed and crash_of(config, time, lease.kind, lease.claimed), false, 0
    if how and (how ~= 'shared' or not alone) then
      is_over, doubtful = count_crash(config, time, lease, how)
    else
      uncount_attempt(lease.id)
    end
    if not is_over then
      is_lonely = is_lonely or #ids == 0 and doubtful >= config.alone
      ids[#ids + 1] = lease.id
    end
  end
  leave_active(leases.lane, all)
  to_front(leases.lane, ids)
  forget_leases(leases)
  return #all, is_lonely
end

-- Add what a worker holds to `entries`, by lane. With `crashed` the earliest claims count as crashed: as many as can
-- have been running, which is twice the worker's slots, since some jobs may just have ended. The others had not
-- started.
local function collect(entries, worker, crashed)
  local number = 0
  for _, leases in ipairs(held_lanes(worker)) do
    for _, lease in ipairs(leases) do
      number = number + 1
      lease.crashed = crashed and number <= 2 * (tonumber(lease.kind) or 1000)
    end
    entries[#entries + 1] = leases
  end
end

-- Release these batches, the latest claim first, at most @BACK_MOST@ jobs and one batch. The latest claim comes first
-- among lanes with a next job that is to run alone. Returns how many jobs came back, and whether there are more.
local function release_claims(config, time, workers, entries)
  table.sort(entries, function(a, b) return tonumber(a.token) > tonumber(b.token) end)
  local alone, lonely, total, rest = {}, {}, 0, false
  for _, leases in ipairs(entries) do
    for _, lease in ipairs(leases) do
      alone[leases.worker] = alone[leases.worker] or crash_of(config, time, lease.kind, lease.claimed) == 'alone'
    end
  end
  for _, leases in ipairs(entries) do
    rest = total >= @BACK_MOST@
    if rest then break end
    local back, is_lonely = release(config, time, leases, alone[leases.worker])
    total = total + back
    if is_lonely then
      lonely[#lonely + 1] = leases.lane
    elseif back > 0 then
      place(config, time, leases.lane, true)
    end
  end
  for n = #lonely, 1, -1 do place(config, time, lonely[n], true) end
  if not rest then
    for _, worker in ipairs(workers) do retire(worker) end
  end
  return total, rest
end
