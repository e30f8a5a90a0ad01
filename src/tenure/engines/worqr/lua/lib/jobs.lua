-- lib jobs: what is kept beside the wire. `jobs` has one record for each process of Tenure and for each job that is aside:
-- s state; w worker; n token; t time of the claim; k kind of the claim; f failures; c crashes; u doubtful crashes; e last error;
-- x body of a cancel request; h sha1 of the bytes; p persistent; m it had its marker when it ended; d the bytes, unless the process has them; due, ended, expires, task.
--@include types wire
local COPIES_MOST, COUNTS_MOST = 20, 10000
local PERSISTENT = '{"tenure":1,"persistent":true,'

local function job_of(pid)
  local text = call('HGET', key('jobs'), pid)
  return text and cmsgpack.unpack(text)
end

local function save(pid, job) call('HSET', key('jobs'), pid, cmsgpack.pack(job)) end

-- The bytes of a job; nil when another client took the process away.
local function data_of(pid, job)
  if job.s ~= 'active' then return job.d end
  return call('LINDEX', process_key(pid), -1) or nil
end

-- Where the envelope of a task is in its decoded bytes.
local function envelope_in(value) return value end

local function is_persistent(data) return string.sub(data, 1, #PERSISTENT) == PERSISTENT end

local function has_counts(job) return job.f + job.c > 0 or job.e ~= nil end

-- Waiting jobs have no record. What is known of their attempts is in `attempts`, by the sha1 of their bytes; of identical jobs
-- each claim takes the counts that came last.
local function counts_of(name)
  local text = call('HGET', key('attempts'), name)
  return text and cmsgpack.unpack(text) or {}
end

local function keep_counts(time, job)
  if not has_counts(job) then return end
  local list = counts_of(job.h)
  list[#list + 1] = { f = job.f, c = job.c, u = job.u, e = job.e, at = time }
  if #list > COPIES_MOST then table.remove(list, 1) end
  -- An original may complete such a job, and leave its counts behind.
  if call('HLEN', key('attempts')) >= COUNTS_MOST then call('HDEL', key('attempts'), call('HRANDFIELD', key('attempts'))) end
  call('HSET', key('attempts'), job.h, cmsgpack.pack(list))
  call('PEXPIRE', key('attempts'), @META_TTL_MS@)
end

local function take_counts(name)
  local list = counts_of(name)
  local counts = table.remove(list)
  if not counts then return nil end
  if #list == 0 then
    call('HDEL', key('attempts'), name)
  else
    call('HSET', key('attempts'), name, cmsgpack.pack(list))
  end
  return counts
end

-- `names` has the latest process or record of these bytes.
local function forget_name(pid, job)
  if call('HGET', key('names'), job.h) == pid then call('HDEL', key('names'), job.h) end
end

local function forget(pid, job)
  call('HDEL', key('jobs'), pid)
  if job.s == 'unroutable' then
    call('ZREM', key('unroutable:' .. job.task), pid)
    if call('EXISTS', key('unroutable:' .. job.task)) == 0 then call('SREM', key('unroutable'), job.task) end
  elseif job.s == 'active' then
    call('ZREM', key('held:' .. job.w), pid)
  else
    call('ZREM', key(job.s), pid)
  end
  forget_name(pid, job)
end

-- End the process of a job that continues elsewhere.
local function end_process(pid)
  call('DEL', process_key(pid))
  call('SREM', working, pid)
end

-- Remove a marker. Answers 1 when it was there, else nil.
local function free(md5)
  return md5 and md5 ~= '' and call('DEL', marker_key(md5)) == 1 and 1 or nil
end

-- A process id as originals make it: the queue and a UUID. It belongs to one claim, and is never used again. It begins with the
-- token, so that the ids of a queue are in the order of the claims.
local function new_pid(token, salt)
  local low = token % 0x1000000
  local order = string.format('%08x%06x', (token - low) / 0x1000000, low)
  local hex = redis.sha1hex(order .. ' ' .. salt .. ' ' .. prefix)
  return queue .. '_' .. table.concat({
    string.sub(order, 1, 8), string.sub(order, 9, 12), '4' .. string.sub(order, 13, 14) .. string.sub(hex, 1, 1),
    'a' .. string.sub(hex, 2, 4), string.sub(hex, 5, 16),
  }, '-')
end

-- The first of `count` tokens in a row: higher than all before.
local function next_tokens(micros, count)
  local first = math.max(micros, tonumber(call('HGET', key('meta'), 'token') or 0) + 1)
  call('HSET', key('meta'), 'token', digits(first + count))
  limit_new_counters()
  return first
end

-- Set a job aside, out of reach of originals.
local function set_aside(pid, job, data, state)
  if job.s == 'active' then
    call('ZREM', key('held:' .. job.w), pid)
    end_process(pid)
  end
  job.s, job.d, job.x = state, data, nil
  save(pid, job)
  call('HSET', key('names'), job.h, pid)
end

local function prune(config, state, time, limit)
  local old = call('ZRANGEBYSCORE', key(state), '-inf', time, 'LIMIT', 0, limit)
  local over = call('ZCARD', key(state)) - #old - config.failed_max
  if over > 0 and #old < limit then
    for _, pid in ipairs(call('ZRANGE', key(state), #old, #old + math.min(over, limit) - 1)) do old[#old + 1] = pid end
  end
  for _, pid in ipairs(old) do
    local job = job_of(pid)
    if job then forget(pid, job) else call('ZREM', key(state), pid) end
  end
  if #old > 0 then call('HINCRBY', key('meta'), 'trimmed_' .. state, #old) end
  return #old
end

-- Keep the record of a job that ended without completion.
local function finish(config, time, pid, job, data, state, body)
  job.e, job.ended, job.expires = body, time, time + config.failed_ttl
  set_aside(pid, job, data, state)
  call('ZADD', key(state), job.expires, pid)
  call('HINCRBY', key('meta'), state, 1)
  prune(config, state, time, 100)
end
