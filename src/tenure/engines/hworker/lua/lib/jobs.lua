-- lib jobs: the jobs of the format, and what Tenure keeps of them. A record of this format also has: d the bytes; v the
-- time that `progress` has for it.
--@include types stamps records prune
local COUNTS_MOST, ID_MOST, NEAR = 10000, 255, 1000
local PHANTOM = 'false' -- an idle worker of the original writes it, and its monitor takes it for a job
local PAIR = '^(%s*%[%s*")([^"\\%c]+)("%s*,.*)$'

-- The id of a job: the first member of the pair. Bytes that are no such pair are named by their hash.
local function name_of(data)
  local _, id = string.match(data, PAIR)
  return id and #id <= ID_MOST and id or redis.sha1hex(data)
end

-- Where the envelope of a task is in a decoded job.
local function envelope_in(value) return type(value) == 'table' and value[2] end

local function is_in_progress(job) return call('HGET', progress, job.d) == job.v end

-- Whether a job that Tenure holds, or keeps for a retry, is with no other client. A monitor returns a job to the right
-- end of the list, and workers push retries on the left. Where the entry is gone and the job in none of these places, a
-- late end of an original's earlier run removed it (its second HDEL): then no other client has the job.
local function is_still_held(_, job)
  local value = call('HGET', progress, job.d)
  if value then return value == job.v end
  return not call('LPOS', waiting, job.d, 'RANK', -1, 'MAXLEN', NEAR)
    and not call('LPOS', waiting, job.d, 'MAXLEN', NEAR)
    and not call('LPOS', failed_list, job.d, 'MAXLEN', NEAR) and call('HEXISTS', broken_hash, job.d) == 0
end

local function data_of(id, job) return is_still_held(id, job) and job.d or nil end

-- Waiting jobs have no record. What is known of their attempts is in `attempts`, see lib counts.
local function keep_counts(_, id, job)
  if job.f + job.c == 0 and not job.e then return end
  -- An original may finish such a job, and leave its counts behind.
  if call('HLEN', key('attempts')) >= COUNTS_MOST then
    call('HDEL', key('attempts'), call('HRANDFIELD', key('attempts')))
  end
  call('HSET', key('attempts'), id, cmsgpack.pack({ f = job.f, c = job.c, u = job.u, e = job.e }))
  call('PEXPIRE', key('attempts'), @META_TTL_MS@)
end

-- The newest failed job up to which all have records. Their number proves nothing: originals trim the list when they
-- add to it.
local function is_known_newest(data) return call('HGET', key('meta'), 'newest_failed') == redis.sha1hex(data) end

local function know_newest(data) call('HSET', key('meta'), 'newest_failed', redis.sha1hex(data)) end

local function remove_failed(data)
  if call('LINDEX', failed_list, 0) == data then call('HDEL', key('meta'), 'newest_failed') end
  call('LREM', failed_list, -1, data)
end

-- Remove a job from its place, also from the originals' place.
local function remove(id, job)
  if job.s == 'active' or job.s == 'scheduled' then
    if is_in_progress(job) then call('HDEL', progress, job.d) end
  elseif job.s == 'failed' then
    remove_failed(job.d)
  elseif job.s == 'broken' then
    call('HDEL', broken_hash, job.d)
  end
  records.forget(id, job)
end

local function prune(config, state, time, limit)
  return prune_records(state, time, limit, state == 'failed' and config.failed_list or config.failed_max, remove)
end

-- Note the record of a job that has ended otherwise than well, and is where originals keep such jobs. `score`: when it
-- expires, with a fraction for the order.
local function note_end(config, id, job, state, score)
  job.s, job.expires, job.ended = state, math.floor(score), math.floor(score) - config.failed_ttl
  records.save(id, job)
  call('ZADD', key(state), string.format('%.17g', score), id)
end

-- End a job in failed, broken or cancelled. The caller has removed it from its place.
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
