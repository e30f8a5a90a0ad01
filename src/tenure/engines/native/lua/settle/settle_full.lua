-- settle_full: end leases of one worker, each with its own outcome. A lease that the worker has lost changes nothing.
-- KEYS[1] prefix
-- ARGV session number config worker (id token kind ms head body)...
-- kind: c completed, t completed, with its result and follow-up jobs as MessagePack (lib following), n: the same, with
-- plain jobs of this queue only, r retry, d retry that does not count (head: the limit that rests until then, or ''), l
-- released, k crashed, u unroutable, f failed, b broken, x cancelled. ms: how long the end of a completed job is kept,
-- or the delay of a retry.
-- Returns: a string of one character for each settlement: 1 settled, 0 lease lost; and `~` if jobs are on their way to
-- other queues.
-- Invariant: a settled job has left `held:<worker>` and is in exactly one of the ends, its lane, the list of its
-- priority, `ready`, `isolated`, `scheduled`, `unroutable:*`. A job that is to be cancelled does not wait again.
--@include begin answers counted config types unique notes watched endline trim sending
local session, number, worker, config = ARGV[1], ARGV[2], ARGV[4], config_of(ARGV[3])
local held_key = key('held:' .. worker)
local again = recall(session, number)
if again then return again end
local time, micros = clock()

-- Read the keys that are written below: a wrong type is an error here, before anything has changed.
local ids, unroutable, completes, keeps, follows = {}, {}, true, false, false
for i = 5, #ARGV, 6 do
  ids[#ids + 1] = ARGV[i]
  local kind = ARGV[i + 2]
  follows = follows or kind == 't' or kind == 'n'
  completes = completes and (kind == 'c' or kind == 't' or kind == 'n')
  if ARGV[i + 2] == 'u' then unroutable[#unroutable + 1] = ARGV[i] end
  keeps = keeps or ARGV[i + 3] ~= '0'
end
local held, held_count = call('HMGET', held_key, unpack(ids)), call('HLEN', held_key)
local kept = keeps and call('HLEN', key('ended')) and call('ZCARD', key('completed'))
call('HLEN', key('meta'))
if held_count <= #ids then call('ZCARD', key('holders')) end
allow_when_full()
local shape_at, is_persistent, is_unique, is_member = {}, false, false, false
for n in ipairs(ids) do
  local shape = held[n] and string.find(held[n], '=', 1, true) and shape_of(held[n]) or ''
  if shape ~= '' then
    shapes.check(shape)
    shape_at[n] = shape
    is_persistent = is_persistent or shapes.word(shape, 'k') ~= nil
    is_unique = is_unique or has_key(shape)
    is_member = is_member or shapes.word(shape, 'f') ~= nil
  end
end
local tries = {}
if completes and not is_persistent and not is_unique and not has_limits()
  and call('EXISTS', key('tries'), key('watched'), key('cancelling'), key('progress'), key('then')) == 0 then
  -- Only completions of jobs in lanes, of a queue in which no job has failed, is watched or has notes: most calls are.
  check_waiting()
  is_awake()
  notes.are_absent()
  watched.are_absent()
else
  check_types()
  if call('EXISTS', key('tries')) == 1 then tries = call('HMGET', key('tries'), unpack(ids)) end
end
local followed_later = nil
if call('EXISTS', key('then')) == 1 then
--@part followers
  followers.check()
  followed_later = followers.release
end
-- What notes the ends of members of groups that are here.
local note_words = sending.send
if is_member then
--@part members
  members.check()
  note_words = members.note
end
-- The follow-up jobs of completions, by the token of the lease.
local followed, follow = {}, nil
if follows then
--@part following
  for i = 5, #ARGV, 6 do
    if ARGV[i + 2] == 't' or ARGV[i + 2] == 'n' then
      local found = cmsgpack.unpack(ARGV[i + 5])
      local result = table.remove(found, 1)
      followed[ARGV[i + 1]] = following.read(found)
      followed[ARGV[i + 1]].result = result
    end
  end
  follow = following.add
end
-- What settles the leases that are not completed. Most calls complete all, and do not make its functions: see lib lazy.
local outcome, others
if is_persistent or not completes then
--@part outcomes
  outcome, others = outcomes, outcomes.prepare(config, time, micros, worker, ids, unroutable)
end

local jobs, completed, placed, gone, woken = key('jobs'), {}, {}, 0, false
local shape_of_completed, ended, expiries, answers = {}, {}, {}, string.rep('1', #ids)
local following_jobs, words = {}, {}

-- Most ends are kept for the same time, so the text of their times is made once.
local kept_for, kept_until, times

-- Complete a job. The first end removes the record: two leases of one job can only come from a list that another
-- program wrote to.
local function complete(id, at, shape, failures, crashes, claimed)
  if call('HDEL', jobs, id) == 0 then return false end
  completed[#completed + 1], shape_of_completed[id] = id, shape ~= '' and shape or nil
  local token, ttl = ARGV[at + 1], ARGV[at + 3]
  local after = followed[token]
  if after then following_jobs[#following_jobs + 1] = after end
  local result = after and after.result or ARGV[at + 5]
  if is_member then
    for _, add in ipairs(after and after.adds or {}) do words[#words + 1] = add end
    words[#words + 1] = sending.word_of(id, shape, 'completed', result)
  end
  if ttl ~= '0' and ttl ~= kept_for then
    kept_for, kept_until = ttl, digits(time + ttl)
    times = time .. ' ' .. kept_until
  end
  if ttl ~= '0' then
    local line = end_line('completed', times, failures, crashes, token, worker, claimed)
    ended[#ended + 1], ended[#ended + 2] = id, line .. '\n' .. ARGV[at + 4] .. '\n' .. result
    expiries[#expiries + 1], expiries[#expiries + 2] = kept_until, id
  end
  return true
end

-- Settle a lease that the worker holds. Return whether its job was there.
local function settle(n, id, at, claimed)
  local shape = shape_at[n] or ''
  if shape ~= '' and has_places(shape) then placed[#placed + 1] = { ARGV[at + 1], shape } end
  local failures, crashes, doubtful = counted(tries[n])
  -- After the end of a suspect another one may start.
  woken = woken or doubtful > 0 and doubtful >= config.isolate
  local persists = shape ~= '' and ARGV[at + 2] == 'c' and shapes.word(shape, 'k')
  local kind = ARGV[at + 2]
  if (kind == 'c' or kind == 't' or kind == 'n') and not persists then
    return complete(id, at, shape, failures, crashes, claimed)
  end
  if call('HEXISTS', jobs, id) == 0 then return false end
  local token, _, ms, head, body = unpack(ARGV, at + 1, at + 5)
  local wakes = outcome.settle(others, {
    id = id, token = token, kind = persists and 'k=1' or kind, ms = ms, head = head, body = body, claimed = claimed,
    shape = shape,
    tries = tries[n], failures = failures, crashes = crashes, doubtful = doubtful, cancel = others.cancels[n],
  })
  woken = woken or wakes
  return true
end

for n, id in ipairs(ids) do
  local at, settled = 6 * n - 1, false
  local mine, claimed = string.match(held[n] or '', '^(%d+) (%d+)')
  if mine == ARGV[at + 1] then
    gone = gone + 1
    ids[gone], settled, held[n] = id, settle(n, id, at, claimed), false
  end
  if not settled then answers = string.sub(answers, 1, n - 1) .. '0' .. string.sub(answers, n + 1) end
end
if #ended > 0 then
  call('HSET', key('ended'), unpack(ended))
  call('ZADD', key('completed'), unpack(expiries))
  if kept + #ended / 2 > config.completed_max then trim('completed', config.completed_max) end
end
if #completed > 0 then call('HINCRBY', key('meta'), 'completed', #completed) end
if #completed > 0 and #tries > 0 then call('HDEL', key('tries'), unpack(completed)) end
notes.clear(completed)
local lanes_of, laned = {}, {}
for _, id in ipairs(completed) do
  local lane = shape_of_completed[id] and shapes.word(shape_of_completed[id], 'l')
  if lane then lanes_of[#lanes_of + 1], laned[#laned + 1] = lane, id end
end
if #laned > 0 then lanes.leave(lanes_of, laned) end
for _, id in ipairs(completed) do
  local shape = shape_of_completed[id]
  if shape and has_key(shape) then uniques.free_key(shape, id, false) end
  watched.publish_end(id, 'completed')
end
if others then outcome.finish(others) end
if #placed > 0 then places.free(placed) end
note_words(words)
if followed_later and #completed > 0 then followed_later(completed) end
for _, after in ipairs(following_jobs) do follow(config, after) end
if woken then wake_one() end
if gone > 0 and call('HDEL', held_key, unpack(ids, 1, gone)) == held_count then
  call('ZREM', key('holders'), worker)
  call('ZREM', key('suspects'), worker)
end
return remember(session, number, answers .. (sending.has_sent() and '~' or ''))
