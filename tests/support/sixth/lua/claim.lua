-- claim: lease the next jobs.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms kind alone of_lane
-- Returns: {ms until something is due or -1, {row}..., {}, 0}; a row is that of `row_of`
-- Invariant: a lease is in `active` and in `held:<worker>`, and its worker is in `holders`. Of a claim of several jobs
-- together, the leases are one group.
--@include begin answers back due silence claimed
local session, number, worker, limit = ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
local lease_ms, together = tonumber(ARGV[6]), tonumber(ARGV[9])
local config = cjson.decode(ARGV[3])
allow_when_full()
local answer = recall(session, number)
if answer then
  return claimed_before(answer, function(id, token)
    local job = job_of(id)
    return job and job.token == token and row_of(id, job) or nil
  end)
end
check_types()
local time, micros = clock()
local amnesty, before = note_activity(config, time, worker)
if not amnesty then
  return newer_layout_error()
end
promote(time, @TEND_LIMIT@)
local _, again = reap(config, time, amnesty, before, @TEND_LIMIT@)
limit = math.min(limit, @MAX_HELD@ - call('ZCARD', key('held:' .. worker)))
local rows, claimed, bytes = {}, {}, 0
local first = math.max(micros, tonumber(call('HGET', key('meta'), 'token') or 0) + 1)
for _, id in ipairs(limit > 0 and call('ZRANGE', key('ready'), 0, limit - 1) or {}) do
  local job = job_of(id)
  bytes = bytes + #job.payload
  if #rows > 0 and bytes > @CLAIM_BYTES@ then
    break
  end
  local order = first + #rows
  job.worker, job.started, job.token = worker, time, 't' .. digits(order)
  job.group = together > 1 and 'g' .. digits(first) or nil
  call('ZADD', key('held:' .. worker), order, id)
  enter(id, job, 'active', order)
  rows[#rows + 1] = row_of(id, job)
  rows[#rows][#rows[#rows] + 1] = job.group or ''
  claimed[#claimed + 1] = id
  claimed[#claimed + 1] = job.token
end
if #rows > 0 then
  call('HSET', key('meta'), 'token', digits(first + #rows))
  call('ZADD', key('holders'), time + lease_ms, worker)
  call('ZREM', key('suspects'), worker)
end
remember(session, number, cmsgpack.pack(claimed))
return { until_next(time, again, next_due()), rows, {}, 0 }
