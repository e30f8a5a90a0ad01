-- light: look through a page of `processing`, from the oldest id on, for ids without a lease.
-- KEYS[1] prefix
-- ARGV config start count own
-- Returns: {ids looked at, requeued, dropped without an item, noted for the next time, where the next page
-- begins or -1 at the end of the list}
-- Invariant: an id without a lease returns to the left end of `queue` after it was seen so twice, `config.stray` ms apart. (Another
-- client takes an id and writes its lease in two steps.) An id whose lease was Leasehold's returns at once if `own` is 1, else
-- when it is due. `start` -1: where the last page of any caller ended. Sending it again is harmless.
--@include begin types marks leases retire crashes
local config, start, count, own = cjson.decode(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
allow_when_full()
check_types()
local time = clock()
local shared = start < 0
if shared then start = tonumber(call('HGET', key('meta'), 'light_cursor') or 0) end
local page = call('LRANGE', key('processing'), -start - count, -start - 1)
if #page == 0 then
  if shared and start > 0 then call('HSET', key('meta'), 'light_cursor', 0) end
  return { 0, 0, 0, 0, -1 }
end
local leases = leases_of(page)
local claims = call('HMGET', key('leased'), unpack(page))
local marks = call('EXISTS', key('unleased')) == 1
local gone, back, ghosts, marked, alive, seen = {}, {}, 0, {}, {}, {}

-- Whether an id without a lease may be requeued now.
local function is_abandoned(id, claim)
  if claim then
    -- `run_due` finds those that it knows of.
    return own or not (call('ZSCORE', key('due'), id) or call('ZSCORE', key('holders'), claim.worker))
  elseif waits_for_retry(id) then
    return own
  end
  local since = marks and tonumber(call('ZSCORE', key('unleased'), id) or nil)
  if since and since > time then
    since = nil -- the clock was set back
  end
  if since and time - since >= config.stray and time - since < config.stray + @MARK_MS@ then
    return true
  end
  -- An old mark proves nothing: the id may have been leased and completed since.
  if not since or time - since >= config.stray then
    marked[#marked + 1] = time
    marked[#marked + 1] = id
  end
  return false
end

-- Of a worker's claims the earliest count as crashed: see `collect` in lib/back.
local earliest = {}
local function has_crashed(id, claim)
  local worker = claim.worker
  if may_crash(claim) and tonumber(claim.kind) and not earliest[worker] then
    earliest[worker] = {}
    for _, held in ipairs(call('ZRANGE', key('held:' .. worker), 0, 2 * tonumber(claim.kind) - 1)) do
      earliest[worker][held] = true
    end
  end
  return may_crash(claim) and (not earliest[worker] or earliest[worker][id])
end

-- End a lease of Leasehold's that its worker has not kept. Answers where the item belongs: `queue`, `processing`, or `aside`.
local function lapse(id, claim, data)
  local place, tries = nil, call('HGET', key('attempts'), id)
  if not may_crash(claim) then
    count_expiry(id, claim, tries)
  elseif has_crashed(id, claim) then
    local how = crash_of(config, time, claim.kind, claim.claimed)
    place = select(4, count_crash(config, time, id, claim, tries, how, data))
  end
  forget_claim(id, claim)
  retire(claim.worker)
  return place or 'queue'
end

-- The oldest id is the last of the page. Its place counts from the right end of the list.
for n = #page, 1, -1 do
  local id = page[n]
  if leases[n] then
    alive[#alive + 1] = id
  elseif call('EXISTS', key('item:' .. id)) == 0 then
    gone[#gone + 1] = -start - 1 - (#page - n)
    ghosts = ghosts + 1
    forget_claim(id, claim_of(claims[n]))
  else
    local claim = claim_of(claims[n])
    local data = claim and call('MGET', key('item:' .. id))[1]
    if data and claim.hash ~= hash_of(data) then
      claim = nil -- of an earlier item of the id
    end
    if seen[id] or is_abandoned(id, claim) then
      local place = seen[id] or claim and lapse(id, claim, data) or 'queue'
      if place ~= 'processing' then gone[#gone + 1] = -start - 1 - (#page - n) end
      if place == 'queue' and not seen[id] then back[#back + 1] = id end
      seen[id] = place
    end
  end
end
strike(key('processing'), gone)
if #back > 0 then
  call('LPUSH', key('queue'), unpack(back))
  call('ZREM', key('unleased'), unpack(back))
  call('ZREM', key('later'), unpack(back))
end
if #marked > 0 then
  call('ZADD', key('unleased'), unpack(marked))
  forget_marks(config, time)
end
if marks and #alive > 0 then call('ZREM', key('unleased'), unpack(alive)) end
local following = #page < count and -1 or start + #page - #gone
if shared then call('HSET', key('meta'), 'light_cursor', math.max(0, following)) end
return { #page, #back, ghosts, #marked / 2, following }
