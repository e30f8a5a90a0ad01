-- lib jobs: what is kept beside the wire. `jobs` has one record for each job that Tenure holds or keeps, by its id:
-- s state; d the bytes; w worker; n token; t time of the claim; k kind of the claim; v the time that `progress` has for it;
-- f failures; c crashes; u doubtful crashes; e last error; ended, expires, task.
--@include types stamps
local COUNTS_MOST, ID_MOST, NEAR = 10000, 255, 1000
local PHANTOM = 'false' -- an idle worker of the original writes it, and its monitor takes it for a job
local PAIR = '^(%s*%[%s*")([^"\\%c]+)("%s*,.*)$'

local function count_phantoms(number) call('HINCRBY', key('meta'), 'phantoms', number) end

-- The id of a job: the first member of the pair. Bytes that are no such pair are named by their hash.
local function id_of(data)
  local _, id = string.match(data, PAIR)
  return id and #id <= ID_MOST and id or redis.sha1hex(data)
end

-- Where the envelope of a task is in a decoded job.
local function envelope_in(value) return type(value) == 'table' and value[2] end

-- The same job with an id of its own. Nil for bytes that are no pair.
local function renamed(data, salt)
  local head, _, rest = string.match(data, PAIR)
  if not head then return nil end
  local hex = redis.sha1hex(salt .. ' ' .. data)
  return head .. table.concat({
    string.sub(hex, 1, 8), string.sub(hex, 9, 12), '4' .. string.sub(hex, 13, 15), 'a' .. string.sub(hex, 16, 18),
    string.sub(hex, 19, 30),
  }, '-') .. rest
end

local function job_of(id)
  local text = call('HGET', key('jobs'), id)
  return text and cmsgpack.unpack(text)
end

local function save(id, job) call('HSET', key('jobs'), id, cmsgpack.pack(job)) end

local function is_in_progress(job) return call('HGET', progress, job.d) == job.v end

-- Whether a job that Tenure holds, or keeps for a retry, is with no other client. A monitor returns a job to the right end of the
-- list, and workers push retries on the left. Where the entry is gone and the job in none of these places, a late end of an
-- original's earlier run removed it (its second HDEL): then no other client has the job.
local function is_still_held(job)
  local value = call('HGET', progress, job.d)
  if value then return value == job.v end
  return not call('LPOS', waiting, job.d, 'RANK', -1, 'MAXLEN', NEAR) and not call('LPOS', waiting, job.d, 'MAXLEN', NEAR)
    and not call('LPOS', failed_list, job.d, 'MAXLEN', NEAR) and call('HEXISTS', broken_hash, job.d) == 0
end

-- Waiting jobs have no record. What is known of their attempts is in `attempts`.
local function keep_counts(id, job)
  if job.f + job.c == 0 and not job.e then return end
  -- An original may finish such a job, and leave its counts behind.
  if call('HLEN', key('attempts')) >= COUNTS_MOST then call('HDEL', key('attempts'), call('HRANDFIELD', key('attempts'))) end
  call('HSET', key('attempts'), id, cmsgpack.pack({ f = job.f, c = job.c, u = job.u, e = job.e }))
  call('PEXPIRE', key('attempts'), @META_TTL_MS@)
end

local function counts_of(id)
  local text = call('HGET', key('attempts'), id)
  return text and cmsgpack.unpack(text) or { f = 0, c = 0, u = 0 }
end

-- Forget a record, and nothing that originals know.
local function forget(id, job)
  call('HDEL', key('jobs'), id)
  if job.s == 'unroutable' then
    call('ZREM', key('unroutable:' .. job.task), id)
    if call('EXISTS', key('unroutable:' .. job.task)) == 0 then call('SREM', key('unroutable'), job.task) end
  elseif job.s == 'active' then
    call('ZREM', key('held:' .. job.w), id)
  else
    call('ZREM', key(job.s), id)
  end
end

-- The newest failed job up to which all have records. Their number proves nothing: originals trim the list when they add to it.
local function is_known_newest(data) return call('HGET', key('meta'), 'newest_failed') == redis.sha1hex(data) end

local function know_newest(data) call('HSET', key('meta'), 'newest_failed', redis.sha1hex(data)) end

local function remove_failed(data)
  if call('LINDEX', failed_list, 0) == data then call('HDEL', key('meta'), 'newest_failed') end
  call('LREM', failed_list, -1, data)
end

-- Remove a job from its place, also from that of the originals.
local function remove(id, job)
  if job.s == 'active' or job.s == 'scheduled' then
    if is_in_progress(job) then call('HDEL', progress, job.d) end
  elseif job.s == 'failed' then
    remove_failed(job.d)
  elseif job.s == 'broken' then
    call('HDEL', broken_hash, job.d)
  end
  forget(id, job)
end

-- Whether a record still has its place on the wire: originals trim and remove failed and broken jobs.
local function is_there(job)
  if job.s == 'failed' then return call('LPOS', failed_list, job.d) ~= false end
  if job.s == 'broken' then return call('HEXISTS', broken_hash, job.d) == 1 end
  return job.s ~= 'scheduled' and job.s ~= 'active' or is_still_held(job)
end

-- The first of `count` tokens in a row: higher than all before.
local function next_tokens(micros, count)
  local first = math.max(micros, tonumber(call('HGET', key('meta'), 'token') or 0) + 1)
  call('HSET', key('meta'), 'token', digits(first + count))
  return first
end

local function most_of(config, state) return state == 'failed' and config.failed_list or config.failed_max end

local function prune(config, state, time, limit)
  local old = call('ZRANGEBYSCORE', key(state), '-inf', time, 'LIMIT', 0, limit)
  local over = call('ZCARD', key(state)) - #old - most_of(config, state)
  if over > 0 and #old < limit then
    for _, id in ipairs(call('ZRANGE', key(state), #old, #old + math.min(over, limit - #old) - 1)) do old[#old + 1] = id end
  end
  for _, id in ipairs(old) do
    local job = job_of(id)
    if job then remove(id, job) else call('ZREM', key(state), id) end
  end
  if #old > 0 then call('HINCRBY', key('meta'), 'trimmed_' .. state, #old) end
  return #old
end

-- Note the record of a job that has ended otherwise than well, and is where originals keep such jobs. `score`: when it expires,
-- with a fraction for the order.
local function note_end(config, id, job, state, score)
  job.s, job.expires, job.ended = state, math.floor(score), math.floor(score) - config.failed_ttl
  save(id, job)
  call('ZADD', key(state), string.format('%.17g', score), id)
end

-- End a job, whose place is free already, in failed, broken or cancelled.
local function finish(config, time, id, job, state, body)
  job.e, job.v = body, nil
  if state == 'failed' then
    local newest = call('LINDEX', failed_list, 0)
    if not newest or is_known_newest(newest) then know_newest(job.d) end
    call('LPUSH', failed_list, job.d)
    call('LTRIM', failed_list, 0, config.failed_list - 1)
  elseif state == 'broken' then
    call('HSET', broken_hash, job.d, stamp(time * 1000, 0))
  end
  note_end(config, id, job, state, time + config.failed_ttl)
  call('HINCRBY', key('meta'), state, 1)
  prune(config, state, time, 100)
end
