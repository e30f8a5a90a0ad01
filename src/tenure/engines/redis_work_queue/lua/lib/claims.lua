-- lib claims: our records of leases. A lease on the wire has a time to live and the token as its value, see lib/leases.
-- Besides, `leased` has id -> "<token> <deadline> <claimed> <slots or h or n> <hash> <worker>", `held:<worker>` the
-- ids by token, `holders` until when each worker with a heartbeat is believed alive, and `due` when leases with an end
-- of their own are due.
--@include lists hash

-- Parse a record: token, deadline, claimed, kind, hash, worker; nil for a malformed one.
local function claim_of(text)
  if not text then return nil end
  local token, deadline, claimed, kind, hash, worker = string.match(text, '^(%d+) (%d+) (%d+) (%w+) (%x+) (.*)$')
  if not token then return nil end
  return { token = token, deadline = tonumber(deadline), claimed = claimed, kind = kind, hash = hash, worker = worker }
end

local function claim_line(token, deadline, claimed, kind, hash, worker)
  local until_when = deadline == 0 and ' 0 ' or ' ' .. digits(deadline) .. ' '
  return token .. until_when .. claimed .. ' ' .. kind .. ' ' .. hash .. ' ' .. worker
end

local function claim_text(claim)
  return claim_line(claim.token, claim.deadline, claim.claimed, claim.kind, claim.hash, claim.worker)
end

-- Whether a lease that expires counts as a crash. A lease of the drop-in client does not: its callers set no limit of
-- crashes, and the first crash of a worker must not be the last of many jobs.
local function may_crash(claim) return claim.kind ~= 'n' end

-- The owner of a lease on the wire: the token if it is one of Tenure's, '' for another client, nil for no lease.
local function wire_token(value)
  if not value then return nil end
  return string.match(value, '^(%d+) ') or ''
end

-- Forget our record of a lease. The lease on the wire stays: another client may own it by now.
local function forget_claim(id, claim)
  call('HDEL', key('leased'), id)
  call('ZREM', key('due'), id)
  if claim then call('ZREM', key('held:' .. claim.worker), id) end
end

-- The hash of `item:<id>` as it is now; nil for none. Reads no more of a large item than the hash needs.
local function seen_hash(item)
  local head = redis.pcall('GETRANGE', item, 0, 65536)
  if type(head) ~= 'string' or head == '' and call('EXISTS', item) == 0 then return nil end
  return hash_of(head, #head > 65536 and call('STRLEN', item) or nil)
end

-- The hashes of many items. Those that are `small`, by position, are read together.
local function seen_hashes(items, small)
  local hashes, together, places = {}, {}, {}
  for n, item in ipairs(items) do
    if small[n] then
      together[#together + 1], places[#places + 1] = item, n
    else
      hashes[n] = seen_hash(item) or false
    end
  end
  for i, data in ipairs(#together > 0 and call('MGET', unpack(together)) or {}) do
    hashes[places[i]] = data and hash_of(data)
  end
  return hashes
end

-- Whether a claim still stands: no other client's lease is on the wire, and the item is the one that was claimed. The
-- lease may have expired before our cleaner came. A client may have added another item under the same id, which must
-- not end with a lease that it never had.
local function stands_on(claim, lease, hash)
  local token = wire_token(lease)
  return (token == nil or token == claim.token) and hash == claim.hash
end

local function stands(id, claim, lease)
  return stands_on(claim, lease, seen_hash(key('item:' .. id)))
end

-- The text in `attempts` of an item; nil without one, or if it belongs to an earlier item of the id.
local function tries_of(id, data)
  local text = call('HGET', key('attempts'), id)
  return text and string.match(text, '^%d+ %d+ (%x+)') == hash_of(data) and text or nil
end

-- Whether an item waits for a retry: no client holds it, and it is not a later item of the id, with other data. `data`:
-- the item, if it is known.
local function waits_for_retry(id, lease, data)
  if lease and not is_waiting(lease) or not call('ZSCORE', key('later'), id) then return false end
  data = data or call('MGET', key('item:' .. id))[1]
  return data and (call('HEXISTS', key('attempts'), id) == 0 or tries_of(id, data) ~= nil)
end

-- Whether an item of the queue is held after all. A lease of Tenure's without its record is left over from an earlier
-- item of the id, which another client completed.
local function is_held(id, lease, claim, data)
  if not lease then
    return false
  elseif is_waiting(lease) then
    return waits_for_retry(id, lease, data)
  elseif not is_ours(lease) then
    return true
  end
  return claim ~= nil and wire_token(lease) == claim.token and hash_of(data) == claim.hash
end

-- The state of an item that other clients see. An item in no list, which waits for a deep clean, is shown as ready.
local function place_in_line(id, data)
  local lease = lease_of(id)
  local waiting = waits_for_retry(id, lease, data)
  if lease and waiting then
    return 'scheduled'
  elseif is_held(id, lease, claim_of(call('HGET', key('leased'), id)), data) then
    return 'active'
  end
  if waiting then
    -- Its lease has ended, and another program's cleaner may have put it into the queue since.
    return call('LPOS', key('processing'), id, 'RANK', -1) and 'scheduled' or 'ready'
  end
  return call('LPOS', key('processing'), id, 'RANK', -1, 'MAXLEN', 10000) and 'active' or 'ready'
end

-- In how many ids of `processing` a call may look for second copies: other clients take a copy as proof that an item is
-- not completed. Few ids, if the list has no more than our own leases. A call asks before it changes a record.
local listed, copies_left
local function look_for_copies()
  if not listed then
    listed = call('LLEN', key('processing'))
    local ours = call('HLEN', key('leased')) + call('ZCARD', key('later'))
    copies_left = listed > ours and @COPIES_MAX@ or @COPIES_FEW@
  end
end

-- Take ids out of `processing`. Returns which ids were there: id -> true.
local function leave_processing(ids)
  if #ids == 0 then return {} end
  look_for_copies()
  copies_left = copies_left - listed
  return take_out(key('processing'), ids, copies_left >= 0)
end

-- The ids that are not in `processing`: another program's cleaner may have put them into the queue.
local function not_in_processing(ids)
  local missing, places = {}, #ids > 50 and find(key('processing'), ids, false)
  for _, id in ipairs(ids) do
    -- Redis itself finds a few ids sooner.
    local there = places and #places[id] > 0 or not places and call('LPOS', key('processing'), id)
    missing[#missing + 1] = not there and id or nil
  end
  return missing
end

-- Put ids into `processing`, unless they are there.
local function into_processing(ids)
  local missing = not_in_processing(ids)
  if #missing > 0 then
    take_out(key('queue'), missing, false)
    call('LPUSH', key('processing'), unpack(missing))
  end
end

-- Leave held ids to their holders: one copy stays in `processing`, where a cleaner finds it when the lease ends.
local function leave_to_holders(ids)
  local once, seen = {}, {}
  for _, id in ipairs(ids) do
    if not seen[id] then once[#once + 1], seen[id] = id, true end
  end
  if #once > 0 then
    leave_processing(once)
    call('LPUSH', key('processing'), unpack(once))
  end
end
