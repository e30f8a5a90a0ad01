-- claim: take up to `limit` jobs from the right end of the list for a worker.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms kind alone of_lane
-- `kind`: how many jobs the worker runs at one time, or h, a lease by hand. `alone`: the kind of the claim of a job
-- that has to run alone: x, y (with suspects that have run for long), or '': not now. `of_lane` is not used.
-- Returns: {ms until more is due or -1, {id, bytes, token, failures, crashes}..., {dropped entry...}, how, behind}.
-- `how` above 0: the job runs alone, and the worker claims nothing else for `how` ms; -1: the worker is to prepare
-- for such a job; else 0. `behind` 1: the next job is a raw payload that the worker leaves to others, so a wait for the
-- list would end at once; 2: originals have nothing to do.
-- Invariant: a claimed job has left the list, and is where originals have the jobs that run: see lib hold.
--@include duework answers claimed hold apart passing
local session, number, worker, limit = ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
local config, lease_ms, kind = cjson.decode(ARGV[3]), tonumber(ARGV[6]), ARGV[7]
local by_hand = tonumber(kind) == nil
local held_key = key('held:' .. worker)
allow_when_full()
local again = recall(session, number)
if again then
  return claimed_before(again, function(id, token)
    local job = records.of(id)
    local data = job and job.s == 'active' and digits(job.n) == token and data_of(id, job)
    if not data then return nil end
    return { id, data, token, job.f, job.c }, claim_window(job.k)
  end)
end
check_types()
local time, micros = clock()
local _, _, next_ms, rest = run_due(config, time, math.max(@TEND_LIMIT@, limit))
if newer_layout then return newer_layout_error() end
local holds = call('ZCARD', held_key)
limit = math.min(limit, @MAX_HELD@ - holds)
if holds > 0 and not hold.is_shown(config, worker) then limit, next_ms = 0, @BEAT_MS@ end
if call('ZCARD', key('holders')) >= @MAX_HOLDERS@ and not call('ZSCORE', key('holders'), worker) then
  return redis.error_reply('TNHOLDERS @MAX_HOLDERS@ workers hold jobs of this queue: that is the limit')
end
-- Dead workers still hold earlier jobs than those that came back: the next calls release them.
if rest then limit = 0 end

local rows, answer, dropped, bytes, looked, first = {}, {}, {}, 0, 0, nil
local tried = call('EXISTS', key('attempts')) == 1
local passing, pause_ms = not by_hand and call('EXISTS', key('passing:' .. worker)) == 1, nil
local ahead_list, ahead = hold.ahead(passing)
ahead = ahead or 0

-- What the worker holds, as claims {claimed, kind, doubtful}.
local state = apart.new(config, kind, ARGV[8], function()
  local held = {}
  for n, id in ipairs(call('ZRANGE', held_key, 0, -1)) do
    local job = records.of(id)
    held[n] = job and { job.t, job.k, job.u } or { 0, '', 0 }
  end
  return held
end)

-- The next job and its list; nil when there is none, or none that this worker can run.
local function next_job()
  local source = ahead > 0 and ahead_list or waiting
  local data = call('LINDEX', source, -1)
  if passing and data and not hold.is_phantom(data) and is_left(worker, data) then
    pause_ms = look_behind(worker, time, limit - #rows)
    data = call('LINDEX', source, -1)
    if is_left(worker, data) then
      pause_ms = pause_ms or LOOK_MS
      return nil
    end
  end
  return data, source
end

-- Take the job out of its list, unless it has to wait.
local function take(data, source)
  local known = tried and counts.of(data) or counts.NONE
  local list, own_kind = apart.list_of(state, time, known.u, #rows == 0)
  if list then
    list[#list + 1] = call('RPOP', source)
    return
  end
  first = first or next_tokens(micros, @MAX_HELD@)
  local token = first + #rows
  local text = digits(token)
  local job = {
    s = 'active', w = worker, n = token, t = time, k = own_kind or kind, f = known.f, c = known.c, u = known.u,
    e = known.e,
  }
  local id, own = hold.take(source, data, job, micros, session)
  if not id then
    table.insert(state.deferred, call('RPOP', source))
    return
  end
  if tried then counts.drop(data) end
  if #rows == 0 then held.show_worker(worker, time, by_hand and lease_ms + config.grace or config.timer) end
  records.save(id, job)
  call('ZADD', held_key, token, id)
  rows[#rows + 1] = { id, own, text, job.f, job.c }
  answer[#answer + 1], answer[#answer + 2] = id, text
end

while #rows < limit and state.how <= 0 and looked < limit + @MAX_LOOK@ do
  local data, source = next_job()
  if not data or #rows > 0 and bytes + #data > @CLAIM_BYTES@ then break end
  looked, bytes, ahead = looked + 1, bytes + #data, ahead - 1
  if hold.is_phantom(data) then
    dropped[#dropped + 1] = call('RPOP', source)
  else
    take(data, source)
  end
end
apart.put_back(state, waiting)
if #rows > 0 then
  call('ZADD', key('holders'), time + lease_ms, worker)
  call('ZREM', key('suspects'), worker)
end
if pause_ms then
  next_ms = next_ms < 0 and pause_ms or math.min(next_ms, pause_ms)
elseif limit > 0 and #rows < limit and #state.deferred + #state.lonely == 0 and looked > 0
  and call('EXISTS', waiting) == 1 then
  next_ms = 0
end
local behind = pause_ms and 1 or #rows == 0 and not by_hand and hold.has_idle_originals(time) and 2 or 0
if #dropped > 0 then call('HINCRBY', key('meta'), 'phantoms', #dropped) end
remember(session, number, cmsgpack.pack(answer))
return { next_ms, rows, dropped, state.how, behind }
