-- settle: end leases of one worker, each with its own outcome. A lease that the worker has lost changes nothing.
-- KEYS[1] prefix
-- ARGV session number config worker (id token kind ms head body)...
-- kind: c completed, r retry, d retry that does not count (head: the limit that rests meanwhile, or ''), l released, k crashed,
-- u unroutable, f failed, b broken, x cancelled. ms: how long the end of a completed job is kept, or the delay of a retry.
-- Returns: a string of one character for each settlement: 1 settled, 0 lease lost.
-- Invariant: a settled job has left `held:<worker>` and is in exactly one of the ends, its lane, the list of its priority,
-- `ready`, `isolated`, `scheduled`, `unroutable:*`. A job that is to be cancelled does not wait again.
--@include begin config remember counted endline
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config, held_key = config_of(ARGV[3]), key('held:' .. worker)
--@include once
local time, micros = clock()
local ids, keeps, completes = {}, false, true
for i = 5, #ARGV, 6 do
  ids[#ids + 1] = ARGV[i]
  completes = completes and ARGV[i + 2] == 'c'
  keeps = keeps or ARGV[i + 3] ~= '0'
end
-- Reads of the keys that are written below: a wrong type is an error here, before anything has changed. (Of `jobs`, the first
-- one that is written, it is one by itself.)
local held, held_count = call('HMGET', held_key, unpack(ids)), call('HLEN', held_key)
local kept_count = keeps and call('HLEN', key('ended')) and call('ZCARD', key('completed'))
call('HLEN', key('meta'))
if held_count <= #ids then call('ZCARD', key('holders')) end
local is_plain = completes
for n = 1, #ids do
  is_plain = is_plain and not (held[n] and string.find(held[n], '=', 1, true))
end
is_plain = is_plain
  and call('EXISTS', key('tries'), key('watched'), key('cancelling'), key('progress'), key('suspects')) == 0

local answers, gone, tries = {}, {}, {}
local ended, expiries, completed = {}, {}, {}
-- Most ends are kept for the same time, so the text of their times is made once.
local kept_until, kept_for, times = nil, nil, nil

-- Complete a job. Answers 0 when it is gone: two leases of one job can only come from a list that another program wrote to. The first
-- end removes the record.
local function complete(id, n, at, claimed)
  local token, ttl, head, body = ARGV[at + 1], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  if call('HDEL', key('jobs'), id) == 0 then return 0 end
  completed[#completed + 1] = id
  if ttl ~= '0' then
    if ttl ~= kept_for then
      kept_for, kept_until = ttl, digits(time + ttl)
      times = time .. ' ' .. kept_until
    end
    local failures, crashes = counted(tries[n])
    ended[#ended + 1] = id
    ended[#ended + 1] = end_line('completed', times, failures, crashes, token, worker, claimed) .. '\n' .. head .. '\n' .. body
    expiries[#expiries + 1] = kept_until
    expiries[#expiries + 1] = id
  end
  return 1
end

-- Most calls only complete plain jobs, of a queue in which no job has failed, is watched or has notes.
local settle, finish = complete, nil
if not is_plain then
--@part settleother
end
for n, id in ipairs(ids) do
  local at = 5 + (n - 1) * 6
  local mine, claimed = string.match(held[n] or '', '^(%d+) (%d+)')
  answers[n] = 0
  if mine == ARGV[at + 1] then
    gone[#gone + 1] = id
    answers[n] = settle(id, n, at, claimed)
    held[n] = false
  end
end
if #ended > 0 then
  call('HSET', key('ended'), unpack(ended))
  call('ZADD', key('completed'), unpack(expiries))
  if kept_count + #ended > config.completed_max then
--@part trim
    trim('completed', config.completed_max)
  end
end
if #completed > 0 then call('HINCRBY', key('meta'), 'completed', #completed) end
if finish then finish() end
if #gone > 0 then
  local left = held_count - call('HDEL', held_key, unpack(gone))
  if left == 0 then call('ZREM', key('holders'), worker) end
  if left == 0 and not is_plain then call('ZREM', key('suspects'), worker) end
else
  allow_when_full()
end
return remember(session, number, table.concat(answers))
