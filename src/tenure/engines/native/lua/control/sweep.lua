-- sweep: cancel or remove up to `limit` jobs in one state, of the whole queue or of one lane ('' for the queue).
-- KEYS[1] prefix
-- ARGV session number config state lane after limit body signal queue map
-- body: of their end; '': the jobs are removed, with all their records. map: the version of the map of the queue's
-- partitions that the caller knows.
-- Returns: `held more ended requested after`: 1 when the queue, or the lane, has been on hold since the last call, 0
-- when this place has been seen to its end (jobs that come there later may stay), jobs ended, workers asked, and where
-- to continue. State `claimed` is `active`, for another look: it counts the jobs that were not asked before.
-- Invariant: the jobs are in `cancelled`, or gone, or active and in `cancelling`. Where they wait, the queue, or the
-- lane, is on hold until `release`.
--@include begin types answers due ends line hold noted transition
local session, number, state, lane = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local config, after, limit = cjson.decode(ARGV[3]), ARGV[6], tonumber(ARGV[7])
local body, signal, queue = ARGV[8], ARGV[9], ARGV[10]
local again = transition(session, number)
if again then return again end
local outdated_map = outdated(tonumber(ARGV[11]))
if outdated_map then return outdated_map end
local time = clock()
local is_over = state == 'completed' or state == 'failed' or state == 'broken' or state == 'cancelled'
local lasted = not is_over and hold(lane, time)
local more, ended, requested = false, 0, 0

local function is_wanted(id)
  return lane == '' or shapes.word(shape_of(call('HGET', key('jobs'), id)), 'l') == lane
end

local function end_all(ids)
  if body == '' then
    remove(ids)
    ended = ended + #ids
    return
  end
  for _, id in ipairs(ids) do
    if call('HEXISTS', key('jobs'), id) == 1 then
      local failures, crashes = counted(call('HGET', key('tries'), id))
      end_badly(config, time, 'cancelled', id, failures, crashes, '0', '-', '0', body)
      ended = ended + 1
    end
  end
end

-- End the wanted ones of these jobs (`entries` has the same order); the next call passes the others over.
local function end_wanted(ids, entries, take_out)
  for n, id in ipairs(ids) do
    if is_wanted(id) then
      end_all({ id })
      take_out(entries[n])
    else
      after = entries[n]
    end
  end
end

-- Where to continue in a place: behind the last entry that was passed over. Race: claims serve the front between two
-- calls. When that entry has gone, all entries before it have gone, too, or may be looked at again.
local function start_of(rank) return rank and rank + 1 or 0 end

local function end_in_order(place, first)
  local found = call('ZRANGE', place, first, first + limit - 1)
  local ids = some_of(state == 'scheduled' and due_ids(found) or found)
  more = #found == limit or #ids < #found
  end_wanted(ids, found, function(entry) call('ZREM', place, entry) end)
  return #found > 0
end

-- Ask one worker, if it holds jobs that are wanted.
local function ask(worker)
  local held, asked = call('HGETALL', key('held:' .. worker)), {}
  for i = 1, #held, 2 do
    local shape = string.match(held[i + 1], '^%d+ %d+ ?%w* ?(.*)$') or ''
    if lane == '' or shapes.word(shape, 'l') == lane then
      asked[#asked + 1], asked[#asked + 2] = held[i], body
    end
  end
  if #asked > 0 then
    local new = call('HSET', key('cancelling'), unpack(asked))
    call('PUBLISH', signal .. worker, queue)
    requested = requested + (state == 'claimed' and new or #asked / 2)
  end
end

-- The workers are few; each holds a limited number of jobs. They are asked in the order of their names: the order of
-- their leases changes with every heartbeat. Mostly one call asks all.
local function ask_workers()
  local workers = call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)
  table.sort(workers)
  for _, worker in ipairs(workers) do
    if worker > after and requested < limit then
      ask(worker)
      after = worker
    elseif worker > after then
      more = true
    end
  end
end

-- Task by task, in the order of their names; `after` is `<task> <id>`.
local function end_unroutable()
  local tasks = call('SMEMBERS', key('unroutable'))
  table.sort(tasks)
  local task, id = string.match(after, '^(%S+) (.*)$')
  for _, name in ipairs(tasks) do
    if name >= (task or '') then
      local parked = key('unroutable:' .. name)
      after = ''
      local found = end_in_order(parked, name == task and start_of(call('ZRANK', parked, id)) or 0)
      after = name .. ' ' .. after
      if call('EXISTS', parked) == 0 then call('SREM', key('unroutable'), name) end
      if found then
        more = true
        return
      end
    end
  end
end

if state == 'active' or state == 'claimed' then
  ask_workers()
elseif state == 'ready' then
  local ids
  if lane == '' then
    ids, more, after = pop_waiting(limit, after)
  else
    ids = pop_lane(lane, limit)
    more = call('EXISTS', key('lane:' .. lane)) == 1
  end
  end_all(ids)
elseif state == 'isolated' then
  local first = start_of(after ~= '' and call('LPOS', key('isolated'), after))
  local found = call('LRANGE', key('isolated'), first, first + limit - 1)
  local ids = some_of(found)
  more = #found == limit or #ids < #found
  end_wanted(ids, found, function(id) call('LREM', key('isolated'), 1, id) end)
elseif state == 'scheduled' then
  end_in_order(key('scheduled'), start_of(after ~= '' and call('ZRANK', key('scheduled'), after)))
elseif state == 'again' then
  local ids
  if lane == '' then
    ids, after = some_following(after, limit)
  else
    local page = call('HSCAN', key('again'), after == '' and '0' or after, 'COUNT', limit)
    ids, after = {}, page[1]
    for i = 2, #page[2], 2 do ids[#ids + 1] = is_wanted(page[2][i]) and page[2][i] or nil end
  end
  end_all(ids)
  -- A page may be empty before the last one is.
  more = after ~= '0'
elseif state == 'unroutable' then
  end_unroutable()
else
  local ids = call('ZRANGE', key(state), 0, limit - 1)
  remove_ended(state, ids)
  more, ended = #ids == limit, #ids
end
local flags = (lasted and 1 or 0) .. ' ' .. (more and 1 or 0)
return remember(session, number, flags .. ' ' .. ended .. ' ' .. requested .. ' ' .. after)
