-- claim: take up to `limit` jobs from the front of a queue for a worker.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms by_hand
-- Returns: {ms until something is due or -1, {id, record, token, failures, crashes, deadline}..., {dropped id...}}
-- Invariant: a claimed job is in `held:<worker>` and no longer in `ready`; its worker is in `holders`; its token is higher
-- than any before it.
--@include begin types remember wake config ends tend ghosts
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = configure(ARGV[3])
local limit, lease_ms, by_hand = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local held_key = key('held:' .. worker)

allow_when_full()
local again = recall(session, number)
if type(again) == 'table' then
  return again
elseif again then
  -- The same claims, as far as they are still held; what was lost on the way stays ours.
  local jobs, claimed = {}, cmsgpack.unpack(again)
  for i = 1, #claimed, 2 do
    local id = claimed[i]
    local token, deadline = string.match(call('HGET', held_key, id) or '', '^(%d+) (%d+)')
    if token == claimed[i + 1] then
      local failures, crashes = counted(call('HGET', key('tries'), id))
      jobs[#jobs + 1] = { id, call('HGET', key('jobs'), id) or '', token, failures, crashes, tonumber(deadline) }
    end
  end
  return { 0, jobs, {} }
end

check_types()
local time, micros = clock()
local _, _, next_ms = tend(config, time, math.max(config.tend, limit))

-- A job that has taken several workers down is held by at most one slot of a worker, so that the next crash is its own.
local function holds_suspect()
  local ids = call('HKEYS', held_key)
  if #ids == 0 then
    return false
  end
  for _, text in ipairs(call('HMGET', key('tries'), unpack(ids))) do
    local _, crashes = counted(text)
    if crashes >= config.isolate then
      return true
    end
  end
  return false
end

limit = math.min(limit, config.max_held - call('HLEN', held_key))
if limit > 0 and call('ZCARD', key('holders')) >= @MAX_HOLDERS@ and not call('ZSCORE', key('holders'), worker) then
  limit = 0
end
local jobs, claims, answer, dropped, put_off, looked = {}, {}, {}, {}, {}, 0
local token = math.max(tonumber(call('HGET', key('meta'), 'token') or 0), micros)
local suspect, taken = nil, {}

local function take(id, record, failures, crashes)
  taken[id] = true
  token = token + 1
  -- The deadline of a kept lease is the job's own: past it, even a worker that beats has lost the job.
  local timeout = tonumber(string.match(record, '^[^\n]* t=(%d+)') or config.default_timeout)
  local deadline = timeout > 0 and time + timeout + config.overdue or 0
  if by_hand == '1' then
    deadline = time + lease_ms
  end
  jobs[#jobs + 1] = { id, record, digits(token), failures, crashes, deadline }
  claims[#claims + 1] = id
  claims[#claims + 1] = digits(token) .. ' ' .. deadline .. ' ' .. time .. (by_hand == '1' and ' h' or '')
  answer[#answer + 1] = id
  answer[#answer + 1] = digits(token)
end

-- Pop up to `count` entries and take what can be taken of them. Answers whether to look further: suspects that are put
-- off, and entries without a job, must not hide what waits behind them.
local function look(count)
  local popped = call('LPOP', key('ready'), count) or {}
  if #popped == 0 then
    return false
  end
  looked = looked + #popped
  local records = call('HMGET', key('jobs'), unpack(popped))
  local tries = call('EXISTS', key('tries')) == 1 and call('HMGET', key('tries'), unpack(popped)) or {}
  for i, id in ipairs(popped) do
    local record = records[i]
    local failures, crashes = counted(tries[i])
    if is_ghost(id) then
      record = nil
    elseif not record or taken[id] then
      dropped[#dropped + 1] = id
    elseif crashes >= config.isolate then
      if suspect == nil then
        suspect = holds_suspect()
      end
      if suspect then
        put_off[#put_off + 1] = id
        record = nil
      end
      suspect = true
    end
    if record and not taken[id] then
      take(id, record, failures, crashes)
    end
  end
  return looked < limit + @MAX_LOOK@
end

while #jobs < limit and look(limit - #jobs) do end
for i = #put_off, 1, -1 do
  call('LPUSH', key('ready'), put_off[i])
end
if #jobs > 0 then
  call('HSET', held_key, unpack(claims))
  call('ZADD', key('holders'), time + lease_ms, worker)
  call('ZREM', key('suspects'), worker)
  call('HSET', key('meta'), 'token', digits(token))
end
if call('EXISTS', key('ready')) == 0 then
  call('DEL', key('wake'))
  lay_ghosts()
elseif #jobs > 0 or looked == 0 then
  wake_one()
elseif #put_off == 0 then
  next_ms = 0
end
remember(session, number, cmsgpack.pack(answer))
return { next_ms, jobs, dropped }
