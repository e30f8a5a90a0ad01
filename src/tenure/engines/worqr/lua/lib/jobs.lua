-- lib jobs: the processes and tasks of the format, and what Tenure keeps of them. A record of this format also has: h
-- sha1 of the bytes; m it had its marker when it ended; d the bytes, unless a process has them.
--@include types wire records prune
local COPIES_MOST, COUNTS_MOST = 20, 10000

local function is_still_held(pid) return call('EXISTS', process_key(pid)) == 1 end

-- The bytes of a job; nil when another client took the process away.
local function data_of(pid, job)
  if job.s ~= 'active' then return job.d end
  return call('LINDEX', process_key(pid), -1) or nil
end

-- Where the envelope of a task is in its decoded bytes.
local function envelope_in(value) return value end

-- Waiting jobs have no record. What is known of their attempts is in `attempts`, by the sha1 of their bytes; of
-- identical jobs each claim takes the counts that came last.
local function copies_of(name)
  local text = call('HGET', key('attempts'), name)
  return text and cmsgpack.unpack(text) or {}
end

local function keep_counts(time, _, job)
  if job.f + job.c == 0 and not job.e then return end
  local list = copies_of(job.h)
  list[#list + 1] = { f = job.f, c = job.c, u = job.u, e = job.e, at = time }
  if #list > COPIES_MOST then table.remove(list, 1) end
  -- An original may complete such a job, and leave its counts behind.
  if call('HLEN', key('attempts')) >= COUNTS_MOST then
    call('HDEL', key('attempts'), call('HRANDFIELD', key('attempts')))
  end
  call('HSET', key('attempts'), job.h, cmsgpack.pack(list))
  call('PEXPIRE', key('attempts'), @META_TTL_MS@)
end

-- `names` has the latest process or record of these bytes.
local function forget(pid, job)
  records.forget(pid, job)
  if call('HGET', key('names'), job.h) == pid then call('HDEL', key('names'), job.h) end
end

-- End the process of a job that continues elsewhere.
local function end_process(pid)
  call('DEL', process_key(pid))
  call('SREM', working, pid)
end

local function remove(pid, job)
  forget(pid, job)
  if job.s == 'active' then end_process(pid) end
end

-- Remove a marker. Returns 1 when it was there, else nil.
local function free(md5)
  return md5 and md5 ~= '' and call('DEL', marker_key(md5)) == 1 and 1 or nil
end

-- Set a job aside, out of reach of originals.
local function set_aside(pid, job, data, state)
  if job.s == 'active' then
    call('ZREM', key('held:' .. job.w), pid)
    end_process(pid)
  end
  job.s, job.d, job.x = state, data, nil
  records.save(pid, job)
  call('HSET', key('names'), job.h, pid)
end

local function prune(config, state, time, limit) return prune_records(state, time, limit, config.failed_max, forget) end

-- Keep the record of a job that ended without completion.
local function finish(config, time, pid, job, data, state, body)
  job.e, job.ended, job.expires = body, time, time + config.failed_ttl
  set_aside(pid, job, data, state)
  call('ZADD', key(state), job.expires, pid)
  call('HINCRBY', key('meta'), state, 1)
  prune(config, state, time, 100)
end

-- Have the markers of these bytes removed, since their task has ended.
local function leave_to_unmark(data)
  call('LPUSH', key('removed'), data)
  call('PEXPIRE', key('removed'), @ANSWER_TTL_MS@)
end
