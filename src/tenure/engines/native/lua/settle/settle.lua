-- settle: complete jobs of one worker: those without a shape, or with no other than the place of their group, in a
-- queue where no job has failed, is watched or has notes. For all others there is settle_full.
-- KEYS[1] prefix
-- ARGV session number config worker (id token kind ms head body)...
-- kind, ms, head, body: as for settle_full; c and n only.
-- Returns: a string of one character for each settlement: 1 settled, 0 lease lost; or +: nothing has changed, call
-- settle_full; or -: the same, for this call only. `~` at the end: word is on its way to groups.
-- Invariant: a job that was settled has left `jobs` and `held:<worker>`; its end is kept for `ms`, or not at all.
--@include keys digits number answers endline
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local held_key = key('held:' .. worker)
local again = recall(session, number)
if again then return again end
local ids, keeps, follows = {}, false, false
for i = 5, #ARGV, 6 do
  if ARGV[i + 2] ~= 'c' and ARGV[i + 2] ~= 'n' then return '+' end
  follows = follows or ARGV[i + 2] == 'n'
  ids[#ids + 1] = ARGV[i]
  keeps = keeps or ARGV[i + 3] ~= '0'
end

-- Read the keys that are written below: a wrong type is an error here, before anything has changed. (`jobs` is the
-- first that is written.)
local held, held_count = call('HMGET', held_key, unpack(ids)), call('HLEN', held_key)
local kept = keeps and call('HLEN', key('ended')) and call('ZCARD', key('completed'))
call('HLEN', key('meta'))
if held_count <= #ids then call('ZCARD', key('holders')) end
local homes = nil
for n = 1, #ids do
  if held[n] and string.find(held[n], '=', 1, true) then
    homes = homes or {}
    homes[n] = string.match(held[n], '^%d+ %d+ %S+ f=(%S+)$')
    if not homes[n] then return '+' end
  end
end
if call('EXISTS', key('tries'), key('watched'), key('cancelling'), key('progress'), key('suspects'), key('then')) > 0
then
  return '+'
end
-- The jobs that follow completions.
local next_jobs = nil
if follows then
--@part nextjobs
  next_jobs = nexts
  if not next_jobs.read() then return '-' end
end

-- The words of members for their groups.
local words, note_words, word_of = {}, nil, nil
if homes then
--@part clock members
  members.check()
  note_words, word_of = members.note, sending.word_of
end

local now = call('TIME')
local time = now[1] * 1000 + math.floor(now[2] / 1000)
local jobs, ended, expiries, completed, gone, answers = key('jobs'), {}, {}, 0, 0, string.rep('1', #ids)
-- Most ends are kept for the same time, so the text of their times is made once.
local kept_for, kept_until, times
for n, id in ipairs(ids) do
  local at, settled = 6 * n - 1, false
  local token, ttl = ARGV[at + 1], ARGV[at + 3]
  local mine, claimed = string.match(held[n] or '', '^(%d+) (%d+)')
  if mine == token then
    gone = gone + 1
    ids[gone] = id
    -- The first end removes the record: two leases of one job can only come from a list that another program wrote to.
    if call('HDEL', jobs, id) == 1 then
      settled, completed = true, completed + 1
      if next_jobs then next_jobs.follow(at) end
      if homes and homes[n] then words[#words + 1] = word_of(id, '', 'completed', ARGV[at + 5], homes[n]) end
      if ttl ~= '0' and ttl ~= kept_for then
        kept_for, kept_until = ttl, digits(time + ttl)
        times = time .. ' ' .. kept_until
      end
      if ttl ~= '0' then
        local line = end_line('completed', times, 0, 0, token, worker, claimed)
        local result = next_jobs and next_jobs.result(at) or ARGV[at + 5]
        ended[#ended + 1], ended[#ended + 2] = id, line .. '\n' .. ARGV[at + 4] .. '\n' .. result
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
  local over = math.min(kept + #ended / 2 - number_in(ARGV[3], 'completed_max'), 1000)
  local oldest = over > 0 and call('ZRANGE', key('completed'), 0, over - 1) or {}
  if #oldest > 0 then
    call('HDEL', key('ended'), unpack(oldest))
    call('ZREM', key('completed'), unpack(oldest))
    call('HINCRBY', key('meta'), 'trimmed_completed', #oldest)
  end
end
if completed > 0 then call('HINCRBY', key('meta'), 'completed', completed) end
if next_jobs then next_jobs.add(now) end
local has_sent = note_words and note_words(words)
if gone == 0 then
  call('DEL', key('full')) -- at the memory limit, too, Redis lets the answer be written: see lib full
elseif call('HDEL', held_key, unpack(ids, 1, gone)) == held_count then
  call('ZREM', key('holders'), worker)
end
return remember(session, number, answers .. (has_sent and '~' or ''))
