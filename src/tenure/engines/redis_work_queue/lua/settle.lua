-- settle: end leases of one worker, each with its own outcome. A lease that the worker has lost changes nothing.
-- KEYS[1] prefix
-- ARGV session number config worker (id token kind ms task body size)...
-- kind: c completed, r retry, l released, k crashed, u unroutable, f failed, b broken, x cancelled. ms: the delay of a
-- retry.
-- Returns: a string of one character for each settlement: 1 settled, 0 lease lost.
-- Invariant: a settled job has no lease of Tenure's, and is completed (its item is gone), in `queue`, waiting for a
-- retry (in `processing` with a lease of its own, and in `later`), or aside in `kept`. A raw payload that the worker
-- has no handler for goes to the left end of `queue`, for other workers.
--@include begin types answers back plain transition
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local time = clock()
local ids, small = {}, {}
for i = 5, #ARGV, 7 do
  ids[#ids + 1] = ARGV[i]
  small[#ids] = tonumber(ARGV[i + 6]) <= 4096
  if ARGV[i + 2] == 'u' then call('ZCARD', key('unroutable:' .. ARGV[i + 4])) end
end
local claims = call('HMGET', key('leased'), unpack(ids))
look_for_copies()
local items = keys_of('item:', ids)
local leases, whole, older, newer = leases_of(ids)
local hashes = seen_hashes(items, small)
local tries = call('EXISTS', key('attempts')) == 1 and call('HMGET', key('attempts'), unpack(ids)) or {}
local answers, done, names, front, gone, off, again, waits = {}, {}, {}, {}, {}, {}, {}, {}

-- Retries that are due at the same moment run in the order of their claims: each is due a part of a millisecond later.
local part_of = {}
local function order_retries()
  local tokens = {}
  for i = 5, #ARGV, 7 do
    if ARGV[i + 2] == 'r' then tokens[#tokens + 1] = tonumber(ARGV[i + 1]) end
  end
  table.sort(tokens)
  for n, token in ipairs(tokens) do part_of[token] = (n - 1) / 4096 end
end
order_retries()

local function retry(id, claim, tried, delay, body)
  local failures, crashes, doubtful = counted(tried, claim.hash)
  call('HSET', key('attempts'), id, attempts_text(failures + 1, crashes, claim.hash, '\n' .. body, doubtful))
  call('HINCRBY', key('meta'), 'retried', 1)
  if delay > 0 then
    set_lease(id, '~' .. digits(time + delay), delay + config.wire)
    call('ZADD', key('later'), string.format('%.17g', time + delay + part_of[tonumber(claim.token)]), id)
    waits[id] = true
  else
    end_lease(id)
    again[#again + 1] = id
  end
end

-- Leave a raw payload to other workers. If it must be read to be recognized, its hash is noted; if that is not
-- possible, it rests, or this worker would claim it again at once.
local REST_MS = 10000
local function leave_to_others(id, claim)
  call('SET', key('passing:' .. worker), '0', 'PX', @ANSWER_TTL_MS@)
  if is_plain_by_head(id) or note_raw(id, claim.hash) then
    end_lease(id)
    again[#again + 1] = id
  else
    set_lease(id, '~' .. digits(time + REST_MS), REST_MS + config.wire)
    call('ZADD', key('later'), time + REST_MS, id)
    waits[id] = true
  end
end

local function set_down(id, claim, tried, kind, task, body)
  local data = call('GET', key('item:' .. id))
  local failures, crashes = counted(tried, claim.hash)
  if kind == 'u' and end_of(id) then
    local message = 'Its task is not known here, and it cannot be set aside: another job of this id is.'
    body = cjson.encode({ type = 'IdTaken', message = message, traceback = '' })
    postpone(config, time, id, data, failures, crashes, body)
    waits[id] = true
  elseif kind == 'u' then
    local line = table.concat({ time, 0, failures, crashes, claim.token, claim.claimed, task }, ' ')
    set_aside('unroutable', id, data, line, '')
    call('ZADD', key('unroutable:' .. task), claim.token, id)
    call('SADD', key('unroutable'), task)
    off[#off + 1] = id
  else
    local state = kind == 'f' and 'failed' or kind == 'b' and 'broken' or 'cancelled'
    failures = failures + (kind == 'f' and 1 or 0)
    if end_badly(config, time, state, id, data, failures, crashes, claim.token, worker, claim.claimed, body) then
      waits[id] = true
    else
      off[#off + 1] = id
    end
  end
end

-- Whether a lease is plainly held: it is on the wire and in our record as the claim wrote it, and the item is the one
-- that was claimed.
local mine = ' ' .. worker
local function is_plainly_held(n, token)
  local claim = claims[n]
  return claim and whole[n] and leases[n] == token .. mine
    and string.find(claim, token .. ' ', 1, true) == 1 and string.sub(claim, -#mine) == mine
    and string.match(claim, '^%d+ %d+ %d+ %w+ (%x+) ') == hashes[n]
end

for n, id in ipairs(ids) do
  local at = 5 + (n - 1) * 7
  local token, kind, ms, task, body = ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4], ARGV[at + 5]
  local plainly = kind == 'c' and is_plainly_held(n, token)
  local claim = not plainly and claim_of(claims[n])
  answers[n] = 0
  if plainly or claim and claim.token == token and claim.worker == worker then
    claims[n] = false
    gone[#gone + 1] = id
    if plainly or stands_on(claim, leases[n], hashes[n]) then answers[n] = 1 end
    if kind == 'l' or kind == 'k' then
      front[#front + 1] = { id, claim, kind == 'k' and 'known' }
    elseif answers[n] == 0 then
      -- Another client holds it by now.
    elseif kind == 'c' then
      done[#done + 1], off[#off + 1] = id, id
      names[#names + 1] = items[n]
      names[#names + 1] = older[n]
      names[#names + 1] = newer[n]
    elseif kind == 'r' then
      retry(id, claim, tries[n], ms, body)
    elseif kind == 'u' and task == '*' then
      leave_to_others(id, claim)
    else
      set_down(id, claim, tries[n], kind, task, body)
    end
  end
end
-- Jobs leave the list after their outcome was written, so that an error between the two leaves them in both places.
for _, id in ipairs(again) do off[#off + 1] = id end
local there, moved = leave_processing(off), {}
for _, id in ipairs(off) do
  if not there[id] then
    moved[#moved + 1] = id -- by another client's cleaner
  end
end
if #moved > 0 then take_out(key('queue'), moved, false) end
-- Jobs that wait for a retry belong into `processing`. Where our lease was still on the wire, no cleaner has moved
-- them.
local astray = {}
for n, id in ipairs(ids) do
  if waits[id] and not (leases[n] and whole[n]) then astray[#astray + 1] = id end
end
into_processing(astray)
if #again > 0 then call('LPUSH', key('queue'), unpack(again)) end
if #done > 0 then
  call('DEL', unpack(names))
  call('HINCRBY', key('meta'), 'completed', #done)
  if #tries > 0 then call('HDEL', key('attempts'), unpack(done)) end
  call('HDEL', key('passing'), unpack(done))
  call('ZREM', key('later'), unpack(done))
  call('ZREM', key('unleased'), unpack(done))
  call('ZREM', key('stray'), unpack(done))
end
-- Jobs that were released or have crashed go to the front, in the order of their claims.
if #front > 0 then
  table.sort(front, by_token)
  requeue(config, time, front)
end
if #gone > 0 then
  call('HDEL', key('leased'), unpack(gone))
  call('ZREM', key('due'), unpack(gone))
  call('ZREM', key('held:' .. worker), unpack(gone))
  retire(worker)
  -- Its jobs may have enqueued more, behind all items that it passed by: it looks through the queue once again.
  if call('EXISTS', key('passing:' .. worker)) == 1 then
    call('SET', key('passing:' .. worker), '0', 'KEEPTTL')
  end
end
return remember(session, number, table.concat(answers))
