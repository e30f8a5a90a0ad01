-- lib jobs: jobs in the hash of the original clients, and the records of those that ended otherwise than completed.
--@include farm
local FIELDS = {
  'data', 'queuedAt', 'timeout', 'maxAttempts', 'attempts', 'deleteAt', 'deletedAt', 'finishAt', 'workerId',
  'attemptAt', 'errorAt',
  'tenure:lane', 'tenure:own', 'tenure:crashes', 'tenure:known', 'tenure:error',
}
local WIRE_ENDS = { failed = 'maxAttempts', broken = 'maxAttempts', invalid = 'dataInvalidError', cancelled = 'delete' }

local function count(total, by) return call('HINCRBY', key('meta'), total, by or 1) end

-- The job as a table; nil when it cannot run: deleted, or without data.
local function job_of(id)
  local values = redis.pcall('HMGET', job_key(id), unpack(FIELDS))
  if values.err then return nil end
  local job = {}
  for n, field in ipairs(FIELDS) do job[field] = values[n] or nil end
  if not job.data or job.data == '' or job.deleteAt or job.deletedAt then return nil, job end
  job.crashes = tonumber(job['tenure:crashes']) or 0
  job.doubtful = job.crashes - (tonumber(job['tenure:known']) or 0)
  job.deliveries = tonumber(job.attempts) or 0
  if not (job.deliveries >= 0 and job.deliveries <= 2 ^ 53) then job.deliveries = 0 end
  return job
end

-- How often a job may be started. As with the original, what is no number, or 0, means its default.
local function most_starts(job)
  local most = tonumber(job.maxAttempts)
  return most and most == most and most ~= 0 and most or @DEFAULT_ATTEMPTS@
end

-- Count a start. Another program may have left an attribute that is no whole number.
local function count_start(id, job)
  local attempts = redis.pcall('HINCRBY', job_key(id), 'attempts', 1)
  if type(attempts) ~= 'number' or attempts < 1 then
    attempts = math.max(0, math.floor(job.deliveries)) + 1
    call('HSET', job_key(id), 'attempts', digits(attempts))
  end
  return attempts
end

-- The fields that Python reads. `lane`: where it was found, if that is known.
local function row_of(state, id, job, lane, delivered, more)
  local failures = math.max(0, job.deliveries - (delivered or 0) - job.crashes)
  more = more or {}
  return {
    state, id, job.data, tostring(failures), tostring(job.crashes), job.queuedAt or '', job.timeout or '',
    job.maxAttempts or '',
    job['tenure:own'] or '', lane or job['tenure:lane'] or '', job['tenure:error'] or '',
    more.worker or '', more.token or '', more.started or '', more.ended or '', more.expires or '', more.group or '',
    tostring(job.doubtful or 0),
  }
end

-- The values of a record, in this order.
local KEPT = {
  'state', 'tenure:lane', 'data', 'queuedAt', 'timeout', 'maxAttempts', 'tenure:own', 'failures', 'crashes', 'worker',
  'token',
  'started', 'ended', 'expires', 'wire', 'tenure:error',
}

local function kept_of(id)
  local text = call('HGET', key('kept'), id)
  if not text then return nil end
  local is_read, values = pcall(cmsgpack.unpack, text)
  if not is_read or type(values) ~= 'table' then return nil end
  local job = {}
  for n, field in ipairs(KEPT) do job[field] = values[n] ~= '' and values[n] or nil end
  return job
end

local function keep(id, job)
  local values = {}
  for n, field in ipairs(KEPT) do values[n] = job[field] or '' end
  call('HSET', key('kept'), id, cmsgpack.pack(values))
end

-- The same fields of a record.
local function kept_row(id, job)
  job.deliveries = job.failures + job.crashes
  return row_of(job.state, id, job, nil, 0, job)
end

-- Forget a record. Where jobs are kept, the record of the original clients goes with it.
local function forget_kept(id, job)
  call('HDEL', key('kept'), id)
  call('ZREM', key(job.state), id)
  if job.wire then
    call('DEL', job_key(id))
    call('LREM', wire(job.wire .. ':' .. job['tenure:lane']), 0, id)
  end
end

-- Forget what a state lists, also without a record that can be read.
local function forget_ended(state, id)
  local job = kept_of(id)
  if job and job.state == state then
    forget_kept(id, job)
  else
    call('ZREM', key(state), id)
    if not job then call('HDEL', key('kept'), id) end
  end
end

-- Remove a job from the wire as the original does when it ends: forget it, or keep it with the time.
local function end_on_wire(config, time, id, lane, kind)
  if config.keep == 0 then
    call('DEL', job_key(id))
    return
  end
  call('HSET', job_key(id), kind .. 'At', time)
  if kind ~= 'delete' then call('RPUSH', wire(kind .. ':' .. lane), id) end
  if kind == 'delete' then call('HSET', job_key(id), 'deletedAt', time) end
end

-- Keep the record of a job that failed, broke or was cancelled, whole. `how`: a name of WIRE_ENDS. `who`: worker,
-- token, started.
local function end_badly(config, time, how, id, job, lane, failures, body, who)
  local state = how == 'invalid' and 'broken' or how
  local kept = {
    state = state, data = job.data, queuedAt = job.queuedAt, timeout = job.timeout, maxAttempts = job.maxAttempts,
    ['tenure:own'] = job['tenure:own'], ['tenure:lane'] = lane, ['tenure:error'] = body, failures = failures,
    crashes = job.crashes, worker = who and who.worker, token = who and who.token, started = who and who.started,
    ended = digits(time), expires = digits(time + config.failed_ttl), wire = config.keep == 1 and WIRE_ENDS[how] or nil,
  }
  keep(id, kept)
  call('ZADD', key(state), time + config.failed_ttl, id)
  count(state)
  end_on_wire(config, time, id, lane, WIRE_ENDS[how])
  local over = call('ZCARD', key(state)) - config.failed_max
  for _, oldest in ipairs(over > 0 and call('ZRANGE', key(state), 0, over - 1) or {}) do
    forget_ended(state, oldest)
    count('trimmed_' .. state)
  end
end

-- The lane in which a job waits or is active; `waits` or `active`. If an original client enqueued the job, the script
-- searches for the lane.
local function find_job(id, job)
  local lanes = job['tenure:lane'] and { job['tenure:lane'] } or call('SRANDMEMBER', wire('active'), @LANES_MOST@)
  for _, lane in ipairs(lanes) do
    if lengths_of(lane) then
      if call('LPOS', queue_key(lane), id) then return lane, 'waits' end
      if call('LPOS', active_key(lane), id) then return lane, 'active' end
    end
  end
end

-- Whether an original client runs the job, by its own fields: it writes both times with its clock.
local function runs_elsewhere(job)
  return job.workerId and (tonumber(job.attemptAt) or 0) > (tonumber(job.errorAt) or 0)
end
