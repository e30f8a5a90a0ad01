-- claim: take up to `limit` tasks from the right end of a queue for a worker.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms kind alone of_lane
-- `kind`: how many jobs the worker runs at one time, or h, a lease by hand. `alone`: the kind of the claim of a job that
-- has to run alone: x, y (beside suspects that have run for long), or '': not now. `of_lane` is not used.
-- Returns: {ms until more is due or -1, {pid, task, token, failures, crashes}..., {}, how}. `how` above 0: the job
-- runs alone, and the worker claims nothing beside it for `how` ms; -1: the worker is to prepare for such a job; else 0.
-- Invariant: a claimed task is in `processes:<pid>` and in no queue, its process is in `workingProcesses`, and its worker is one
-- of `workers` with a timer. A worker whose timer expired claims nothing until its heartbeat has found what it lost.
--@include duework remember claimed suspects passing
local session, number, worker, limit = ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
local config, lease_ms, kind = cjson.decode(ARGV[3]), tonumber(ARGV[6]), ARGV[7]
local by_hand = tonumber(kind) == nil
local held_key = key('held:' .. worker)
allow_when_full()
local again = recall(session, number)
if again then
  return claimed_before(again, function(pid, token)
    local job = job_of(pid)
    local data = job and job.s == 'active' and digits(job.n) == token and data_of(pid, job)
    if not data then return nil end
    return { pid, data, token, job.f, job.c }, claim_window(job.k)
  end)
end
check_types()
local time, micros = clock()
local _, _, next_ms, rest = run_due(config, time, math.max(@TEND_LIMIT@, limit))
if newer_layout then return newer_layout_error() end
local holds = call('ZCARD', held_key)
limit = math.min(limit, @MAX_HELD@ - holds)
if holds > 0 and not renew_timer(wire_id(worker), math.max(config.timer, call('PTTL', timer_key(wire_id(worker))))) then
  limit, next_ms = 0, @BEAT_MS@
end
if call('ZCARD', key('holders')) >= @MAX_HOLDERS@ and not call('ZSCORE', key('holders'), worker) then
  return redis.error_reply('LHHOLDERS @MAX_HOLDERS@ workers hold jobs of this queue: that is the limit')
end
-- Dead workers still hold earlier jobs than those that came back: the next calls release them.
if rest then limit = 0 end

local rows, answer, bytes, looked, first = {}, {}, 0, 0, nil
local tried = call('EXISTS', key('attempts')) == 1
local passing, pause_ms = not by_hand and call('EXISTS', key('passing:' .. worker)) == 1, nil

local state = apart.new(config, kind, ARGV[8], function() return held_claims(worker) end)
-- The next task; nil when there is none, or none that this worker can run.
local function next_task()
  local data = call('LINDEX', waiting, -1)
  if passing and data and is_left(worker, data) then
    pause_ms = look_behind(worker, time, limit - #rows)
    data = call('LINDEX', waiting, -1)
    if is_left(worker, data) then
      pause_ms = pause_ms or LOOK_MS
      return nil
    end
  end
  return data
end

-- Move the task at the right end into a process.
local function take(data, name, counts, own_kind)
  first = first or next_tokens(micros, @MAX_HELD@)
  local token = first + #rows
  local text = digits(token)
  local pid = new_pid(token, session)
  call('LMOVE', waiting, process_key(pid), 'RIGHT', 'LEFT')
  call('SADD', working, pid)
  local job = {
    s = 'active', w = worker, n = token, t = time, k = own_kind or kind, h = name,
    f = counts.f, c = counts.c, u = counts.u, e = counts.e, p = is_persistent(data) and 1 or nil,
  }
  save(pid, job)
  call('HSET', key('names'), name, pid)
  call('ZADD', held_key, token, pid)
  rows[#rows + 1] = { pid, data, text, job.f, job.c }
  answer[#answer + 1], answer[#answer + 2] = pid, text
end

local NONE = { f = 0, c = 0, u = 0 }
while #rows < limit and state.how <= 0 and looked < limit + @MAX_LOOK@ do
  local data = next_task()
  if not data or #rows > 0 and bytes + #data > @CLAIM_BYTES@ then break end
  looked, bytes = looked + 1, bytes + #data
  local name = redis.sha1hex(data)
  local counts = tried and take_counts(name) or NONE
  local list, own_kind = apart.list_of(state, time, counts.u, #rows == 0)
  if list then
    list[#list + 1] = call('RPOP', waiting)
    keep_counts(time, { h = name, f = counts.f, c = counts.c, u = counts.u, e = counts.e })
  else
    if #rows == 0 then appear(worker, { queue }, time, by_hand and lease_ms + config.grace or config.timer) end
    take(data, name, counts, own_kind)
  end
end

apart.put_back(state, waiting)
if #rows > 0 then
  call('ZADD', key('holders'), time + lease_ms, worker)
  call('ZREM', key('suspects'), worker)
end
if pause_ms then
  next_ms = next_ms < 0 and pause_ms or math.min(next_ms, pause_ms)
elseif limit > 0 and #rows < limit and not apart.stay(state) and looked > 0 and call('EXISTS', waiting) == 1 then
  next_ms = 0
end
remember(session, number, cmsgpack.pack(answer))
return { next_ms, rows, {}, state.how }
