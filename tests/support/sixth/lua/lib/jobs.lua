-- lib jobs: a job is a table in the hash `jobs`, and an entry of the sorted set that is named as its state.
--@include types
local ENDS = { failed = true, broken = true, cancelled = true }

local function job_of(id)
  local text = call('HGET', key('jobs'), id)
  return text and cmsgpack.unpack(text)
end

local function count(total, by)
  return call('HINCRBY', key('meta'), total, by or 1)
end

-- Put the job into a state. `score` is its place there; without one it goes to the end.
local function enter(id, job, state, score)
  if job.state then
    call('ZREM', key(job.state), id)
  end
  job.state = state
  call('ZADD', key(state), score or count('order'), id)
  call('HSET', key('jobs'), id, cmsgpack.pack(job))
end

local function wake()
  call('PUBLISH', key('news'), prefix)
end

local function make_ready(id, job, front)
  job.worker, job.token, job.group, job.due = nil, nil, nil, nil
  enter(id, job, 'ready', front and count('front', -1) or nil)
  wake()
end

local function forget(id, job)
  call('ZREM', key(job.state), id)
  call('HDEL', key('jobs'), id)
end

-- Keep the record of a job that ended, and trim the oldest of its kind.
local function finish(config, time, id, job, state, error)
  job.error, job.ended, job.expires = error, time, time + config.failed_ttl
  enter(id, job, state)
  count(state)
  local over = call('ZCARD', key(state)) - config.failed_max
  for _, oldest in ipairs(over > 0 and call('ZRANGE', key(state), 0, over - 1) or {}) do
    forget(oldest, { state = state })
    count('trimmed_' .. state)
  end
end

-- The fields that Python reads, in the order of `read_view`.
local function row_of(id, job)
  return {
    id, job.state, job.payload, job.task, job.timeout, job.retries, job.failures, job.enqueued, job.due or '',
    job.worker or '', job.token or '', job.started or '', job.ended or '', job.expires or '', job.error or '',
  }
end
