-- settle: end leases of one worker, each with its own outcome. A lease that the worker has lost changes nothing.
-- KEYS[1] prefix
-- ARGV session number config worker (id token kind ms head body)...
-- kind: c completed, r retry, d retry that does not count (head: the limit that rests meanwhile, or ''), l released, k crashed,
-- u unroutable, f failed, b broken, x cancelled. ms: how long the end of a completed job is kept, or the delay of a retry.
-- Returns: a string of one character for each settlement: 1 settled, 0 lease lost.
-- Invariant: a settled job has left `held:<worker>` and is in exactly one of the ends, its lane, the list of its priority,
-- `ready`, `isolated`, `scheduled`, `unroutable:*`. A job that is to be cancelled does not wait again.
--@include keys digits number answers counted endline
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local held_key = key('held:' .. worker)
--@include once
--@include now
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

-- Most calls only complete plain jobs, of a queue in which no job has failed, is watched or has notes. The others also have:
-- the texts of `tries`, the list of completed jobs, what settles a job (nil: it is completed), and what is left to do in the end.
local tries, completed_ids, settle_other, finish
if not is_plain then
--@part settleother
end
local jobs, ended, expiries, completed, gone = key('jobs'), {}, {}, 0, 0
local answers = string.rep('1', #ids)
-- Most ends are kept for the same time, so the text of their times is made once.
local kept_for, kept_until, times

for n, id in ipairs(ids) do
  local at, settled = 6 * n - 1, false
  local token, ttl = ARGV[at + 1], ARGV[at + 3]
  local mine, claimed = string.match(held[n] or '', '^(%d+) (%d+)')
  if mine == token then
    gone = gone + 1
    ids[gone] = id
    settled = settle_other and settle_other(id, n, at, claimed)
    -- The first end removes the record: two leases of one job can only come from a list that another program wrote to.
    if settled == nil and call('HDEL', jobs, id) == 1 then
      settled, completed = true, completed + 1
      if completed_ids then completed_ids[completed] = id end
      if ttl ~= '0' then
        if ttl ~= kept_for then
          kept_for, kept_until = ttl, digits(time + ttl)
          times = time .. ' ' .. kept_until
        end
        local failures, crashes = counted(tries and tries[n])
        local line = end_line('completed', times, failures, crashes, token, worker, claimed)
        ended[#ended + 1], ended[#ended + 2] = id, line .. '\n' .. ARGV[at + 4] .. '\n' .. ARGV[at + 5]
        expiries[#expiries + 1], expiries[#expiries + 2] = kept_until, id
      end
    end
    held[n] = false
  end
  if not settled then answers = string.sub(answers, 1, n - 1) .. '0' .. string.sub(answers, n + 1) end
end
if #ended > 0 then
  call('HSET', key('ended'), unpack(ended))
  call('ZADD', key('completed'), unpack(expiries))
  local most = number_in(ARGV[3], 'completed_max')
  if kept_count + #ended / 2 > most then
--@part trim
    trim('completed', most)
  end
end
if completed > 0 then call('HINCRBY', key('meta'), 'completed', completed) end
if finish then finish() end
if gone > 0 then
  local left = held_count - call('HDEL', held_key, unpack(ids, 1, gone))
  if left == 0 then call('ZREM', key('holders'), worker) end
  if left == 0 and not is_plain then call('ZREM', key('suspects'), worker) end
else
--@part full
  allow_when_full()
end
return remember(session, number, answers)
