-- claim: take up to `limit` items from the right end of a queue for a worker.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms kind alone
-- `alone`: whether the worker could run a job alone: now, beside (suspects that have run for long), soon, or no.
-- Returns: {ms until something is due or -1, {id, data, token, failures, crashes}..., {dropped id...}, how}; `how` above 0: the
-- job is to run alone, and for `how` ms the worker claims nothing beside it; -1: one waits for this worker to be able to; else 0.
-- Invariant: a claimed id has left `queue`, is once in `processing`, and has a lease on the wire whose value is a token
-- higher than any before it. An id whose lease somebody holds is not claimed, but stays in `processing`.
-- A raw payload that the worker has no handler for is put at the left end of `queue`, for others.
-- What is read has a limit: no more than MAX_CALL_BYTES and one item. What was not looked at stays where it was.
-- `kind`: how many jobs the worker runs at one time; or h, a lease by hand; or n, one of the drop-in.
--@include begin types tokens remember claimed back duework plain suspects
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
local limit, lease_ms, kind = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local alone = ARGV[8]
local by_hand = tonumber(kind) == nil
local held_key = key('held:' .. worker)

-- A lease by hand that was given before has the time that is now asked for, from now on; never less than it had. False: it
-- has ended, and somebody may be about to take the item: then another one is claimed, as when there was none before.
local function renewed(id, token, claim, data)
  local lease, whole = lease_of(id)
  if not data or not whole or wire_token(lease) ~= token or not claim or claim.token ~= token then
    return false
  end
  local now = clock()
  claim.deadline = math.max(claim.deadline, now + lease_ms)
  call('ZADD', key('due'), claim.deadline + config.grace, id)
  set_lease(id, claim.token .. ' ' .. worker, claim.deadline - now)
  call('HSET', key('leased'), id, claim_text(claim))
  return true
end

allow_when_full()
local again = recall(session, number)
if again then
  local how = 0
  local answer = claimed_before(again, function(id, token)
    local claim = claim_of(call('HGET', key('leased'), id))
    local data = call('MGET', key('item:' .. id))[1]
    if by_hand and not renewed(id, token, claim, data) then return nil end
    if claim and claim.token == token and data then
      local failures, crashes = counted(call('HGET', key('attempts'), id), claim.hash)
      how = claim_window(claim.kind) or how
      return { id, data, token, failures, crashes }
    end
  end)
  answer[4] = how
  if answer.err or not by_hand or #answer[2] > 0 then return answer end
end

check_types()
call('ZCARD', held_key)
local time, micros = clock()
local _, _, next_ms = run_due(config, time, math.max(@TEND_LIMIT@, limit))
if newer_layout then return newer_layout_error() end
if not by_hand then
  limit = math.min(limit, @MAX_HELD@ - call('ZCARD', held_key))
  if call('ZCARD', key('holders')) >= @MAX_HOLDERS@ and not call('ZSCORE', key('holders'), worker) then
    return redis.error_reply('LHHOLDERS @MAX_HOLDERS@ workers hold jobs of this queue: that is the limit')
  end
end

local jobs, ids, leased, held, due, answer = {}, {}, {}, {}, {}, {}
local dropped, deferred, lonely, kept, passed, taken, looked, how = {}, {}, {}, {}, {}, {}, 0, 0
local token = math.max(tonumber(call('HGET', key('meta'), 'token') or 0), micros)
local tried = call('EXISTS', key('attempts')) == 1
local passing = not by_hand and call('EXISTS', key('passing:' .. worker)) == 1
-- Bytes of items: of all, and of those that were read only to be left to others. Redis serves nobody else meanwhile.
local IN_VAIN_MAX = 1048576
local DEFERRED_MOST = 100
local read, in_vain = 0, 0

local claimed, deadline = digits(time), by_hand and time + lease_ms or 0
local wire = by_hand and ARGV[6] or digits(config.wire)

local function take(id, data, hash, failures, crashes, alone_kind)
  taken[id] = true
  token = token + 1
  local text = token_text(token)
  set_lease(id, text .. ' ' .. worker, wire)
  jobs[#jobs + 1] = { id, data, text, failures, crashes }
  ids[#ids + 1] = id
  leased[#leased + 1] = id
  leased[#leased + 1] = claim_line(text, deadline, claimed, alone_kind or kind, hash, worker)
  held[#held + 1] = text
  held[#held + 1] = id
  if by_hand then
    due[#due + 1] = deadline + config.grace
    due[#due + 1] = id
  end
  answer[#answer + 1] = id
  answer[#answer + 1] = text
end

-- Forget our record of a lease that is no longer on the wire: it ended, and another program's cleaner came first. Answers the
-- counts of the job, and whether it was a crash too many.
local function lapsed(id, claim, data, tries)
  call('HDEL', key('leased'), id)
  forget_claim(id, claim)
  if claim and claim.hash == hash_of(data) then
    retire(claim.worker)
    if may_crash(claim) then
      local how = crash_of(config, time, claim.kind, claim.claimed)
      local failures, crashes, doubtful, place = count_crash(config, time, id, claim, tries, how, data)
      if place == 'processing' then call('LPUSH', key('processing'), id) end
      return failures, crashes, doubtful, place ~= nil
    end
  end
  return counted(tries, hash_of(data))
end

-- Whether an item is raw, as far as that can be told without reading it. `noted`: the hash of what was seen to be raw.
local function is_known_as_raw(id, noted)
  if is_plain_by_head(id) then return true end
  local name = key('item:' .. id)
  local size = noted and redis.pcall('STRLEN', name)
  if type(size) ~= 'number' or size == 0 then return false end
  local head = call('GETRANGE', name, 0, 65535)
  in_vain = in_vain + #head
  return hash_of(head, size) == noted
end

local function is_spent() return read >= @MAX_CALL_BYTES@ or in_vain >= IN_VAIN_MAX end

local company = nil
-- Where an item goes that was running when `doubtful` workers died: 'taken', as others are; 'alone', and then the kind of its claim;
-- 'deferred', as enough of them are held together; or 'lonely', one that is to run alone and cannot here, or not yet: when this
-- worker gets ready for it, the rest of this call is for nothing else.
local function place_of_suspect(doubtful)
  if doubtful < config.isolate then return 'taken' end
  company = company or company_of(config, time, held_claims(held_key))
  if doubtful < config.alone then
    local worst = math.max(company.worst, doubtful)
    if company.count >= most_together(tonumber(kind), worst) then return 'deferred' end
    company.count, company.worst = company.count + 1, worst
    return 'taken'
  end
  if (alone == 'now' or alone == 'beside') and #jobs == 0 and not company.young then
    how = window_of(config, doubtful)
    return 'alone', (alone == 'now' and not company.doubtful and 'x' or 'y') .. digits(how)
  elseif alone ~= 'no' and reserve(time, worker) then
    how = -1
  end
  return 'lonely'
end

local function consider(id, lease, text, tries, noted, data)
  if taken[id] then
    return -- the same id twice in the queue: it is held once
  elseif passing and not lease and is_known_as_raw(id, noted) then
    passed[#passed + 1] = id
    return
  end
  if data == nil then data = call('MGET', key('item:' .. id))[1] end
  if not data then
    dropped[#dropped + 1] = id
    return
  end
  read = read + #data
  if is_held(id, lease, claim_of(text), data) then
    kept[#kept + 1] = id
    return
  elseif passing and is_plain(data) then
    passed[#passed + 1] = id
    in_vain = in_vain + #data
    if #data > 65536 then note_raw(id, hash_of(data)) end
    return
  end
  local hash = hash_of(data)
  local failures, crashes, doubtful = counted(tries, hash)
  if text then
    local is_over
    failures, crashes, doubtful, is_over = lapsed(id, claim_of(text), data, tries)
    if is_over then return end
  end
  local place, alone_kind = 'taken', nil
  if not by_hand then place, alone_kind = place_of_suspect(doubtful) end
  if place == 'deferred' then
    deferred[#deferred + 1] = id
  elseif place == 'lonely' then
    lonely[#lonely + 1] = id
  else
    take(id, data, hash, failures, crashes, alone_kind)
    if alone_kind then note_alone(time, how, worker, jobs[#jobs][3], id) end
  end
end

-- Those from the n-th on were not looked at.
local function put_back_unseen(popped, n)
  local unseen = {}
  for m = #popped, n, -1 do unseen[#unseen + 1] = popped[m] end
  call('RPUSH', key('queue'), unpack(unseen))
end

-- The data of many items at one time, where those before were small and none can be passed by unread.
local function data_of(popped)
  if passing or looked == 0 or read / looked > 4096 then return {} end
  return call('MGET', unpack(keys_of('item:', popped)))
end

while #jobs < limit and how == 0 and looked < limit + @MAX_LOOK@ and #kept < 20 and #passed < 50 and not is_spent() do
  local popped = call('RPOP', key('queue'), math.min(limit - #jobs, looked == 0 and 10 or 100)) or {}
  if #popped == 0 then break end
  local found = data_of(popped)
  local leases = leases_of(popped)
  local claims = call('HMGET', key('leased'), unpack(popped))
  local tries = tried and call('HMGET', key('attempts'), unpack(popped)) or {}
  local noted = passing and call('HMGET', key('passing'), unpack(popped)) or {}
  for n, id in ipairs(popped) do
    if is_spent() or how ~= 0 then
      put_back_unseen(popped, n)
      break
    end
    looked = looked + 1
    consider(id, leases[n], claims[n], tries[n], noted[n], found[n])
  end
end
leave_to_holders(kept)
-- Until it has looked through the whole queue once since its last job ended, it goes on at once. Then it takes its time.
local further = #passed == 0
if #passed > 0 then
  call('LPUSH', key('queue'), unpack(passed))
  local since = tonumber(call('GET', key('passing:' .. worker)) or nil) or 0
  call('SET', key('passing:' .. worker), digits(since + #passed), 'KEEPTTL')
  further = since + #passed < call('LLEN', key('queue'))
end
-- Suspects stay first, in their order: who gets ready for one must find it. But many of them must not hide the others.
if #deferred > DEFERRED_MOST then
  call('LPUSH', key('queue'), unpack(deferred))
else
  for n = #deferred, 1, -1 do call('RPUSH', key('queue'), deferred[n]) end
end
for n = #lonely, 1, -1 do
  call(n > 1 and #lonely > DEFERRED_MOST and 'LPUSH' or 'RPUSH', key('queue'), lonely[n])
end
if #jobs > 0 then
  call('LPUSH', key('processing'), unpack(ids))
  call('HSET', key('leased'), unpack(leased))
  if not by_hand then
    call('ZADD', held_key, unpack(held))
    call('ZADD', key('holders'), time + lease_ms, worker)
    call('ZREM', key('suspects'), worker)
  end
  if #due > 0 then call('ZADD', key('due'), unpack(due)) end
  if call('EXISTS', key('later'), key('unleased'), key('stray')) > 0 then
    call('ZREM', key('later'), unpack(ids))
    call('ZREM', key('unleased'), unpack(ids))
    call('ZREM', key('stray'), unpack(ids))
  end
  call('HSET', key('meta'), 'token', digits(token))
end
remember(session, number, cmsgpack.pack(answer))
if #jobs == 0 and looked > 0 and #deferred + #lonely == 0 and further and call('EXISTS', key('queue')) == 1 then
  next_ms = 0
end
return { next_ms, jobs, dropped, how }
