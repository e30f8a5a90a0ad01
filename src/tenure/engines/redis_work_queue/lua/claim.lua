-- claim: take up to `limit` items from the right end of a queue for a worker.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms kind alone of_lane
-- `kind`: how many jobs the worker runs at one time; or h, a lease by hand; or n, a lease of the drop-in client.
-- `alone`: the kind of the claim of a job that has to run alone: x, y (with suspects that have run for long), or '':
-- not now. `of_lane` is not used.
-- Returns: {ms until more is due or -1, {id, data, token, failures, crashes}..., {dropped id...}, how}. `how` above 0:
-- the job runs alone, and the worker claims nothing else for `how` ms; -1: the worker is to prepare for such a
-- job; else 0. At most one id comes from `taken`: the one that a wait before this call took out of the queue, or one
-- that such a claim left there.
-- Invariant: a claimed id has left `queue` or `taken`, is once in `processing`, and has a lease on the wire; its value
-- is a token higher than any before it. An id that another client holds stays in `processing`. A raw payload that the
-- worker has no handler for goes to the left end of `queue`, for other workers. A call reads at most MAX_CALL_BYTES and
-- one item.
--@include begin types tokens answers claimed back duework plain suspects traces
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
local limit, lease_ms, kind = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local by_hand = tonumber(kind) == nil
local held_key = key('held:' .. worker)

-- Renew a lease by hand after its claim was sent again: it gets the time that is asked for now, never less than it had.
-- False: it has ended, and another client may be about to take the item, so this call claims another one.
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
  local answer = claimed_before(again, function(id, token)
    local claim = claim_of(call('HGET', key('leased'), id))
    local data = call('MGET', key('item:' .. id))[1]
    if by_hand and not renewed(id, token, claim, data) or not claim or claim.token ~= token or not data then
      return nil
    end
    local failures, crashes = counted(call('HGET', key('attempts'), id), claim.hash)
    return { id, data, token, failures, crashes }, claim_window(claim.kind)
  end)
  if answer.err or not by_hand or #answer[2] > 0 then
    return_taken() -- the wait was sent again, too, and may have taken one more
    return answer
  end
end

check_types()
call('ZCARD', held_key)
local time, micros = clock()
local _, _, next_ms = run_due(config, time, math.max(@TEND_LIMIT@, limit))
if newer_layout then
  return_taken()
  return newer_layout_error()
end
if not by_hand then
  limit = math.min(limit, @MAX_HELD@ - call('ZCARD', held_key))
  if call('ZCARD', key('holders')) >= @MAX_HOLDERS@ and not call('ZSCORE', key('holders'), worker) then
    return_taken()
    return redis.error_reply('TNHOLDERS @MAX_HOLDERS@ workers hold jobs of this queue: that is the limit')
  end
end

local jobs, ids, leased, held, due, answer = {}, {}, {}, {}, {}, {}
local dropped, kept, passed, taken, looked = {}, {}, {}, {}, 0
local token = math.max(tonumber(call('HGET', key('meta'), 'token') or 0), micros)
local tried = call('EXISTS', key('attempts')) == 1
local passing = not by_hand and call('EXISTS', key('passing:' .. worker)) == 1
-- Bytes that were read: of all items, and of those that were read only to be left to other workers.
local IN_VAIN_MAX = 1048576
local read, in_vain = 0, 0

local claimed, deadline = digits(time), by_hand and time + lease_ms or 0
local wire = by_hand and ARGV[6] or digits(config.wire)

local function take(id, data, hash, failures, crashes, alone_kind)
  taken[id] = true
  token = token + 1
  local text = token_text(token)
  set_lease(id, text .. ' ' .. worker, wire)
  local expiries = tried and kind == 'n' and expiries_of(call('HGET', key('attempts'), id), hash) or nil
  jobs[#jobs + 1] = { id, data, text, failures, crashes, expiries }
  ids[#ids + 1] = id
  local line = claim_line(text, deadline, claimed, alone_kind or kind, hash, worker)
  leased[#leased + 1], leased[#leased + 2] = id, line
  held[#held + 1], held[#held + 2] = text, id
  if by_hand then due[#due + 1], due[#due + 2] = deadline + config.grace, id end
  answer[#answer + 1], answer[#answer + 2] = id, text
end

-- Forget our record of a lease that is no longer on the wire: it ended, and another program's cleaner came first.
-- Returns the counts of the job, and whether it was a crash too many.
local function lapsed(id, claim, data, tries)
  forget_claim(id, claim)
  if claim and claim.hash == hash_of(data) then
    retire(claim.worker)
    if may_crash(claim) then
      local how = crash_of(config, time, claim.kind, claim.claimed)
      local failures, crashes, doubtful, place = count_crash(config, time, id, claim, tries, how, data)
      if place == 'processing' then call('LPUSH', key('processing'), id) end
      return failures, crashes, doubtful, place ~= nil
    end
    count_expiry(id, claim, tries)
    tried = true
  end
  return counted(tries, hash_of(data))
end

-- Whether an item is known as raw without reading it whole. `noted`: the hash of an item that was seen to be raw.
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

local state = apart.new(config, kind, ARGV[8], function() return held_claims(held_key) end)

-- Take an item of the queue, or answer the list that it belongs to.
local function consider(id, lease, text, tries, noted, data)
  if taken[id] then return nil end -- the same id twice in the queue
  if passing and not lease and is_known_as_raw(id, noted) then return passed end
  if data == nil then data = call('MGET', key('item:' .. id))[1] end
  if not data then return dropped end
  read = read + #data
  local claim = claim_of(text)
  if is_held(id, lease, claim, data) then return kept end
  local hash = hash_of(data)
  if passing and is_plain(data) then
    in_vain = in_vain + #data
    if #data > 65536 then note_raw(id, hash) end
    return passed
  end
  local failures, crashes, doubtful = counted(tries, hash)
  if text then
    local is_over
    failures, crashes, doubtful, is_over = lapsed(id, claim, data, tries)
    if is_over then return nil end
  end
  local list, alone_kind = apart.list_of(state, time, doubtful, #jobs == 0)
  if not list then take(id, data, hash, failures, crashes, alone_kind) end
  return list
end

-- Read the data of many items at once if those before were small and none may be passed by without reading it.
local function data_of(popped)
  if passing or looked == 0 or read / looked > 4096 then return {} end
  return call('MGET', unpack(keys_of('item:', popped)))
end

while #jobs < limit and state.how <= 0 and looked < limit + @MAX_LOOK@ and #kept < 20 and #passed < 50
  and not is_spent() do
  local popped = looked == 0 and call('RPOP', key('taken'), 1)
    or call('RPOP', key('queue'), math.min(limit - #jobs, looked == 0 and 10 or 100)) or {}
  if #popped == 0 then break end
  local found, leases = data_of(popped), leases_of(popped)
  local claims = call('HMGET', key('leased'), unpack(popped))
  local tries = tried and call('HMGET', key('attempts'), unpack(popped)) or {}
  local noted = passing and call('HMGET', key('passing'), unpack(popped)) or {}
  for n, id in ipairs(popped) do
    if is_spent() or state.how > 0 then
      -- This call does not look at the others: they go back.
      for m = #popped, n, -1 do call('RPUSH', key('queue'), popped[m]) end
      break
    end
    looked = looked + 1
    local list = consider(id, leases[n], claims[n], tries[n], noted[n], found[n])
    if list then list[#list + 1] = id end
  end
end
leave_to_holders(kept)
-- The worker claims again at once until it has looked through the whole queue once since its last job ended. Then it
-- waits.
local further = #passed == 0
if #passed > 0 then
  call('LPUSH', key('queue'), unpack(passed))
  local since = tonumber(call('GET', key('passing:' .. worker)) or nil) or 0
  call('SET', key('passing:' .. worker), digits(since + #passed), 'KEEPTTL')
  further = since + #passed < call('LLEN', key('queue'))
end
apart.put_back(state, key('queue'))
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
if by_hand and #jobs == 0 then
  call('DEL', key('@CALLS@:' .. session)) -- there is nothing to remember
else
  remember(session, number, cmsgpack.pack(answer), kind == 'n' and @DROPIN_ANSWER_MS@)
end
if #jobs == 0 and looked > 0 and #state.deferred + #state.lonely == 0 and further
  and call('EXISTS', key('queue')) == 1 then
  next_ms = 0
end
return without_traces(config, { next_ms, jobs, dropped, state.how })
