-- claim: take up to `limit` jobs from the right end of the list for a worker.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms kind alone of_lane
-- `kind`: how many jobs the worker runs at one time, or h, a lease by hand. `alone`: the kind of the claim of a job that
-- has to run alone: x, y (beside suspects that have run for long), or '': not now. `of_lane` is not used.
-- Returns: {ms until more is due or -1, {id, bytes, token, failures, crashes}..., {dropped entry...}, how, behind}. `how` above 0: the job
-- runs alone, and the worker claims nothing beside it for `how` ms; -1: the worker is to prepare for such a job; else 0. `behind` 1:
-- the next job is a raw payload that the worker leaves to others, so a wait for the list would end at once; 2: originals have nothing to do.
-- Invariant: a claimed job is in `progress` and in no list. `progress` has no bytes for two jobs: a copy of a job that is in
-- progress, or kept beside, gets an id of its own. Else one entry would stand for both, and the end of one would lose the other.
--@include duework remember claimed suspects passing
local session, number, worker, limit = ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
local config, lease_ms, kind = cjson.decode(ARGV[3]), tonumber(ARGV[6]), ARGV[7]
local by_hand = tonumber(kind) == nil
local held_key = key('held:' .. worker)
allow_when_full()
local again = recall(session, number)
if again then
  return claimed_before(again, function(id, token)
    local job = job_of(id)
    local held = job and job.s == 'active' and digits(job.n) == token and is_still_held(job)
    if not held then return nil end
    return { id, job.d, token, job.f, job.c }, claim_window(job.k)
  end)
end
check_types()
local time, micros = clock()
local _, _, next_ms, rest = run_due(config, time, math.max(@TEND_LIMIT@, limit))
if newer_layout then return newer_layout_error() end
limit = math.min(limit, @MAX_HELD@ - call('ZCARD', held_key))
if call('ZCARD', key('holders')) >= @MAX_HOLDERS@ and not call('ZSCORE', key('holders'), worker) then
  return redis.error_reply('LHHOLDERS @MAX_HOLDERS@ workers hold jobs of this queue: that is the limit')
end
-- Dead workers still hold earlier jobs than those that came back: the next calls release them.
if rest then limit = 0 end

local rows, answer, dropped, bytes, looked, first = {}, {}, {}, 0, 0, nil
local tried = call('EXISTS', key('attempts')) == 1
local passing, pause_ms = not by_hand and call('EXISTS', key('passing:' .. worker)) == 1, nil

local state = apart.new(config, kind, ARGV[8], function() return held_claims(worker) end)
-- The job under an id that no other job has. Nil: it has to wait until a job with these bytes, which are no pair, has ended.
local function unmistakable(data, id, token)
  local other = job_of(id)
  if other and (other.s == 'failed' or other.s == 'broken') then
    forget(id, other)
    call('HDEL', key('meta'), 'newest_failed') -- the ended one gets another record
    other = nil
  end
  local is_free = call('HEXISTS', progress, data) == 0
  if other and other.d == data and is_free and other.v then
    lose(id, other) -- a monitor of the original returned it to the list
    other = nil
  end
  if not other and is_free then return data, id end
  local renewed = renamed(data, session .. digits(token))
  return renewed, renewed and id_of(renewed)
end

local function hold(data, id, token, counts, own_kind)
  local job = {
    s = 'active', d = data, w = worker, n = token, t = time, k = own_kind or kind, v = stamp(micros, token),
    f = counts.f, c = counts.c, u = counts.u, e = counts.e,
  }
  call('HSET', progress, data, job.v)
  save(id, job)
  call('ZADD', held_key, token, id)
  local text = digits(token)
  rows[#rows + 1] = { id, data, text, job.f, job.c }
  answer[#answer + 1], answer[#answer + 2] = id, text
end

-- Decide about the job that was taken out of the list.
local function take(data)
  if data == PHANTOM then
    dropped[#dropped + 1] = data
    return
  end
  local id = id_of(data)
  local counts = tried and counts_of(id) or { f = 0, c = 0, u = 0 }
  local list, own_kind = apart.list_of(state, time, counts.u, #rows == 0)
  if list then
    list[#list + 1] = data
    return
  end
  first = first or next_tokens(micros, @MAX_HELD@)
  local token = first + #rows
  local own, own_id = unmistakable(data, id, token)
  if not own then
    table.insert(state.deferred, data)
    return
  end
  if tried then call('HDEL', key('attempts'), id) end
  hold(own, own_id, token, counts, own_kind)
end

local waited = call('LLEN', taken)
if passing then
  -- What a wait took may be a raw payload: it is again where it was.
  for _ = 1, math.min(waited, @MAX_LOOK@) do call('LMOVE', taken, waiting, 'LEFT', 'RIGHT') end
  waited = 0
end

-- The next job and its list; nil when there is none, or none that this worker can run.
local function next_job()
  local source = waited > 0 and taken or waiting
  local data = call('LINDEX', source, -1)
  if passing and data and data ~= PHANTOM and is_left(worker, data) then
    pause_ms = look_behind(worker, time, limit - #rows)
    data = call('LINDEX', source, -1)
    if is_left(worker, data) then
      pause_ms = pause_ms or LOOK_MS
      return nil
    end
  end
  return data, source
end

while #rows < limit and state.how <= 0 and looked < limit + @MAX_LOOK@ do
  local data, source = next_job()
  if not data or #rows > 0 and bytes + #data > @CLAIM_BYTES@ then break end
  looked, bytes, waited = looked + 1, bytes + #data, waited - 1
  call('RPOP', source)
  take(data)
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
-- Whether originals look for a job in vain: each writes a phantom then, every 10 ms. A wait for the list would take all jobs before them.
local function has_idle_originals()
  if call('HDEL', progress, PHANTOM) == 1 then
    call('HSET', key('meta'), 'idle_originals', time)
    return true
  end
  local seen = tonumber(call('HGET', key('meta'), 'idle_originals') or nil)
  return seen and seen <= time and time - seen < @IDLE_MS@
end

local behind = pause_ms and 1 or #rows == 0 and not by_hand and has_idle_originals() and 2 or 0
if #dropped > 0 then count_phantoms(#dropped) end
remember(session, number, cmsgpack.pack(answer))
return { next_ms, rows, dropped, state.how, behind }
