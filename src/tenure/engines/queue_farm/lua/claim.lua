-- claim: lease the next batches, from the lanes that have their turn.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms kind alone of_lane
-- `kind`: how many jobs the worker runs at one time; or h, a lease by hand. `of_lane`: most jobs of one lane, of one
-- task. `alone`: the kind of the claim of a job that has to run alone: x, y (with suspects that have run for long),
-- or '': not now.
-- Returns: {ms until more is due or -1, row of a job..., {{id, lane, kind} of an entry that was no job to run, or {key,
-- lane, 'spoiled'}...}, how}. `how` above 0: the job runs alone, and the worker claims nothing else for `how` ms;
-- -1: the worker is to prepare for such a job; else 0.
-- Invariant: a claimed job is in `active:<lane>`, in `held:<worker>` and its lane in `claims`; nothing else of the lane
-- is active.
--@include begin answers claimed find silence hold holding apart
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
local limit, lease_ms, kind, of_lane = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[9])
local by_hand = kind == 'h'
allow_when_full()
local answer = recall(session, number)
if answer then
  return claimed_before(answer, function(id, token)
    local lease, job = lease_of(worker, id), job_of(id)
    local batch = lease and batch_of(lease.lane)
    if not job or not batch or lease.token ~= token then return nil end
    local group = batch.size > 1 and token or ''
    return row_of('active', id, job, lease.lane, 1, { worker = worker, token = token, started = lease.claimed,
      group = group }), claim_window(lease.kind)
  end)
end
check_types()
local time, micros = clock()
local amnesty, before = note_activity(config, time, worker)
if not amnesty then return newer_layout_error() end
local _, again, rest = reap(config, time, amnesty, before, @TEND_LIMIT@)
local function nothing(next_ms)
  remember(session, number, cmsgpack.pack({}))
  return { next_ms, {}, {}, 0 }
end
if rest then return nothing(0) end
find_news(config, time)
if is_held_back(time) then
  if call('HEXISTS', key('meta'), 'paused') == 1 then call('DEL', key('wake')) end -- the end of the pause wakes
  return nothing(until_next(time, again))
end
if call('ZCARD', key('holders')) >= @MAX_HOLDERS@ and not call('ZSCORE', key('holders'), worker) then
  return redis.error_reply('TNHOLDERS @MAX_HOLDERS@ workers and leases by hand hold jobs of this queue: that is '
    .. 'the limit')
end
limit = math.min(limit, @MAX_HELD@ - call('HLEN', key('held:' .. worker)))

local rows, claimed, dropped, bytes, token = {}, {}, {}, 0,
  math.max(micros, tonumber(call('HGET', key('meta'), 'token') or 0))

-- Whether a job can run. If not, it ends here, as with an original worker.
local function fit(lane, id, job, rest_of)
  if job and not job.finishAt and (string.find(job['tenure:own'] or '', 'r', 1, true)
    or job.deliveries < most_starts(job)) then
    return true
  end
  call('LREM', queue_key(lane), -1, id)
  if job and not job.finishAt then
    local body = job['tenure:error'] or cjson.encode({ type = 'MaxAttempts',
      message = 'It was started ' .. job.deliveries .. ' times.', traceback = '' })
    end_badly(config, time, 'failed', id, job, lane, math.max(0, job.deliveries - job.crashes), body)
    dropped[#dropped + 1] = { id, lane, 'retry-limit' }
  else
    -- Deleted, or finished by a client that came late.
    if config.keep == 0 then call('DEL', job_key(id)) elseif not (job and job.finishAt) and rest_of then
      end_on_wire(config, time, id, lane, 'dataDeletedError')
    end
    dropped[#dropped + 1] = { id, lane, 'deleted' }
  end
  return false
end

local state = apart.new(config, kind, ARGV[8], function() return held_claims(worker) end)

-- What may go together: jobs of one task, or raw payloads.
local function task_of(data)
  local head = '{"tenure":'
  return string.sub(data, 1, #head) == head and string.match(data, '"task":"([^"]*)"') or ''
end

-- Take the next batch of a lane. Returns whether its next job must wait.
local function take(lane)
  local batch, task, room, own_kind = {}, nil, math.min(of_lane, limit - #rows), nil
  for _ = 1, @DROPS_MOST@ + room do
    local id = #batch < room and call('LINDEX', queue_key(lane), -1)
    if not id then break end
    local job, left = job_of(id)
    if fit(lane, id, job, left) then
      if task and task ~= task_of(job.data) or #rows > 0 and bytes + #job.data > @CLAIM_BYTES@ then break end
      local is_suspect, waits = not by_hand and job.doubtful >= config.isolate, false
      if is_suspect then
        if #batch > 0 then break end
        waits, own_kind = apart.list_of(state, time, job.doubtful, #rows == 0)
        if waits then return true end
        room = 1 -- a suspect is in no batch
      end
      task, bytes = task_of(job.data), bytes + #job.data
      job.attempts = count_start(id, job)
      call('RPOPLPUSH', queue_key(lane), active_key(lane))
      job.deliveries = job.attempts
      call('HSET', job_key(id), 'attemptAt', digits(time), 'workerId', worker, 'tenure:lane', lane)
      batch[#batch + 1], rows[#rows + 1] = id, { id, job }
      local place_of =
        table.concat({ digits(token + 1), digits(time), own_kind or kind, job.attempts, #batch, lane }, ' ')
      call('HSET', key('held:' .. worker), id, place_of)
    end
  end
  if #batch == 0 then
    place(config, time, lane)
    return false
  end
  token = token + 1
  call('ZREM', key('ready'), lane)
  write_fetch({ lane = lane, token = digits(token), claimed = digits(time), size = #batch, worker = worker },
    time + lease_ms)
  for n = #rows - #batch + 1, #rows do
    local who =
      { worker = worker, token = digits(token), started = digits(time), group = #batch > 1 and digits(token) or '' }
    claimed[#claimed + 1], claimed[#claimed + 2] = rows[n][1], digits(token)
    rows[n] = row_of('active', rows[n][1], rows[n][2], lane, 1, who)
  end
  return false
end

local full, skipped = false, 0
for _ = 1, math.min(limit, @MAX_BATCH@) + @MAX_LOOK@ do
  local lane = state.how <= 0 and #rows < limit and not full and call('ZRANGE', key('ready'), skipped, skipped)[1]
  if not lane then break end
  local waiting, active = lengths_of(lane)
  if not waiting or waiting == 0 or active > 0 then
    call('ZREM', key('ready'), lane)
    if not call('HGET', key('claims'), lane) then place(config, time, lane) end
  else
    local before_it = #rows
    local waits = take(lane)
    skipped = skipped + (waits and 1 or 0)
    full = bytes > @CLAIM_BYTES@ or #rows == before_it and #rows > 0 and not waits
  end
end
if #rows > 0 then
  call('ZADD', key('holders'), time + lease_ms, worker)
  call('ZREM', key('suspects'), worker)
  call('HSET', key('meta'), 'token', digits(token))
end
local next_ms, left = until_next(time, again), call('ZCARD', key('ready'))
if left == 0 then
  call('DEL', key('wake'))
elseif left > skipped or #rows > 0 then
  wake_one()
end
if left > skipped and #rows < limit and state.how <= 0 then next_ms = 0 end
for _, entry in ipairs(spoiled) do dropped[#dropped + 1] = entry end
remember(session, number, cmsgpack.pack(claimed))
return { next_ms, rows, dropped, state.how }
