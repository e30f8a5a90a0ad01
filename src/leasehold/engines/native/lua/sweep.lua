-- sweep: cancel up to `limit` jobs in one state, of the whole queue or of one lane ('' for the queue).
-- KEYS[1] prefix
-- ARGV session number config state lane offset limit body signal queue
-- Returns: `looked cancelled requested next`: entries looked at, jobs ended, workers asked, and the offset to go on from;
-- looked 0: there is no more.
-- Invariant: the jobs are in `cancelled`, or active and in `cancelling`.
--@include begin types remember wake config task shape unique notes forget ends ghosts line
local session, number, state, lane = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local config, offset, limit = configure(ARGV[3]), tonumber(ARGV[6]), tonumber(ARGV[7])
local body, signal, queue = ARGV[8], ARGV[9], ARGV[10]
allow_when_full()
local again = recall(session, number)
if again then
  return again
end
check_types()
local time = clock()
local looked, cancelled, requested = 0, 0, 0

local function is_wanted(id)
  return lane == '' or shapes.word(shape_of(call('HGET', key('jobs'), id)), 'l') == lane
end

local function cancel(id)
  if call('HEXISTS', key('jobs'), id) == 1 then
    local failures, crashes = counted(call('HGET', key('tries'), id))
    end_badly(config, time, 'cancelled', id, failures, crashes, '0', '-', '0', body)
    cancelled = cancelled + 1
  end
end

-- Cancel what is wanted of a sorted set. What is left there is passed over by the next call.
local function cancel_of(place, ids)
  looked = looked + #ids
  for _, id in ipairs(ids) do
    if is_wanted(id) then
      cancel(id)
      call('ZREM', place, id)
    else
      offset = offset + 1
    end
  end
end

-- Ask one worker, if it holds jobs that are wanted.
local function ask(worker)
  local held, asked = call('HGETALL', key('held:' .. worker)), {}
  for i = 1, #held, 2 do
    local shape = string.match(held[i + 1], '^%d+ %d+ %d+ ?%w* ?(.*)$') or ''
    if lane == '' or shapes.word(shape, 'l') == lane then
      asked[#asked + 1], asked[#asked + 2] = held[i], body
    end
  end
  if #asked > 0 then
    call('HSET', key('cancelling'), unpack(asked))
    call('PUBLISH', signal .. worker, queue)
    requested = requested + #asked / 2
  end
end

-- The workers are few; each holds a limited number of jobs. The offset counts workers in the order of their names: that of
-- their leases changes with every beat. Mostly one call asks all.
local function ask_workers()
  local workers = call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)
  table.sort(workers)
  while workers[offset + 1] and requested < limit do
    ask(workers[offset + 1])
    looked, offset = looked + 1, offset + 1
  end
end

if state == 'active' then
  ask_workers()
elseif state == 'ready' then
  local ids
  if lane == '' then
    ids, looked = pop_waiting(limit)
  else
    ids, looked = pop_lane(lane, limit)
  end
  for _, id in ipairs(ids) do
    cancel(id)
  end
elseif state == 'isolated' then
  -- Of a lane: at most its heads. The list is short, and is looked through once.
  for _, id in ipairs(lane == '' and {} or call('LRANGE', key('isolated'), 0, limit - 1)) do
    if is_wanted(id) then
      cancel(id)
      call('LREM', key('isolated'), 1, id)
    end
  end
elseif state == 'scheduled' then
  cancel_of(key('scheduled'), call('ZRANGE', key('scheduled'), offset, offset + limit - 1))
elseif state == 'again' then
  local ids = following(offset, limit)
  looked = #ids
  for _, id in ipairs(ids) do
    if is_wanted(id) then
      cancel(id)
    else
      offset = offset + 1
    end
  end
elseif state == 'unroutable' then
  -- Task by task; the offset counts jobs that are passed over, of all tasks together.
  local skip = offset
  for _, task in ipairs(call('SMEMBERS', key('unroutable'))) do
    local parked = key('unroutable:' .. task)
    local count = call('ZCARD', parked)
    if looked == 0 and skip < count then
      cancel_of(parked, call('ZRANGE', parked, skip, skip + limit - 1))
      if call('EXISTS', parked) == 0 then
        call('SREM', key('unroutable'), task)
      end
    end
    skip = math.max(0, skip - count)
  end
end
return remember(session, number, looked .. ' ' .. cancelled .. ' ' .. requested .. ' ' .. offset)
