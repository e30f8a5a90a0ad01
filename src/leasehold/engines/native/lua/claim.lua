-- claim: take up to `limit` jobs from the front of a queue for a worker.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms by_hand slots
-- Returns: {ms until something is due or -1, {id, record, token, failures, crashes, deadline}..., {dropped id...}}
-- Invariant: a claimed job is in `held:<worker>` and no longer in `ready`; its worker is in `holders`; its token is higher
-- than any before it.
--@include begin types remember wake config ends tend ghosts
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = configure(ARGV[3])
local limit, lease_ms, by_hand, slots = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8]
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

-- A job that has taken several workers down is one of a kind in a worker, so that the next crash is its own.
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
if call('ZCARD', key('holders')) >= @MAX_HOLDERS@ and not call('ZSCORE', key('holders'), worker) then
  return redis.error_reply('LHHOLDERS @MAX_HOLDERS@ workers and leases by hand hold jobs of this queue: that is the limit')
end
local jobs, claims, answer, dropped, looked = {}, {}, {}, {}, 0
local token = math.max(tonumber(call('HGET', key('meta'), 'token') or 0), micros)
local taken, took_isolated = {}, false

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
  claims[#claims + 1] = digits(token) .. ' ' .. deadline .. ' ' .. time .. ' ' .. (by_hand == '1' and 'h' or slots)
  answer[#answer + 1] = id
  answer[#answer + 1] = digits(token)
end

-- One job of `isolated`, where this worker holds none of them.
local function take_isolated()
  if #jobs >= limit or took_isolated or call('LLEN', key('isolated')) == 0 or holds_suspect() then
    return
  end
  for _ = 1, @MAX_LOOK@ do
    local id = call('LPOP', key('isolated'))
    if not id then
      return
    end
    local record = not is_ghost(id) and call('HGET', key('jobs'), id)
    if record then
      take(id, record, counted(call('HGET', key('tries'), id)))
      took_isolated = true
      return
    end
  end
end

-- Pop up to `count` entries and take what can be taken of them. Answers whether to look further: entries without a job
-- must not hide what waits behind them.
local function look(count)
  local popped = call('LPOP', key('ready'), count) or {}
  if #popped == 0 then
    return false
  end
  looked = looked + #popped
  local records = call('HMGET', key('jobs'), unpack(popped))
  local tries = call('EXISTS', key('tries')) == 1 and call('HMGET', key('tries'), unpack(popped)) or {}
  for i, id in ipairs(popped) do
    local failures, crashes = counted(tries[i])
    if not is_ghost(id) then
      if not records[i] or taken[id] then
        dropped[#dropped + 1] = id
      elseif crashes >= config.isolate then
        call('RPUSH', key('isolated'), id)
      else
        take(id, records[i], failures, crashes)
      end
    end
  end
  return looked < limit + @MAX_LOOK@
end

take_isolated()
while #jobs < limit and look(limit - #jobs) do end
take_isolated()
if #jobs > 0 then
  call('HSET', held_key, unpack(claims))
  call('ZADD', key('holders'), time + lease_ms, worker)
  call('ZREM', key('suspects'), worker)
  call('HSET', key('meta'), 'token', digits(token))
end
local waiting, isolated = call('EXISTS', key('ready')) == 1, call('EXISTS', key('isolated')) == 1
if not waiting and not isolated then
  call('DEL', key('wake'))
  lay_ghosts()
elseif (waiting and (#jobs > 0 or looked == 0)) or (isolated and took_isolated) then
  wake_one()
elseif waiting then
  next_ms = 0
end
remember(session, number, cmsgpack.pack(answer))
return { next_ms, jobs, dropped }
