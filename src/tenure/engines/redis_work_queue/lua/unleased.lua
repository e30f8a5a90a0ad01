-- unleased: look through a page of `processing`, from the oldest id on, for ids without a lease.
-- KEYS[1] prefix
-- ARGV config start count own began note
-- Returns: {ids looked at, requeued, dropped without an item, seen without a lease and left, where the next page begins
-- or -1 at the end of the list, when the pass began}
-- Invariant: an id without a lease returns to the left end of `queue` if it is seen so again after `config.stray` ms.
-- Race: another client takes an id and writes its lease in two steps; between them the id has no lease. It ends both
-- within the grace. An id returns at once if the pass before met it with a lease of another client, which so has done
-- both. After a lease of Tenure's an id returns at once if `own` is 1, else when it is due. `start` -1: where the last
-- page of any worker ended; 0: a new pass begins. `began`: the answer of the first page of a pass. `note` 0: write no
-- marks. Sending it again is harmless.
--@include begin types marks leases retire crashes
local config, start, count, own = cjson.decode(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
local began, note = tonumber(ARGV[5]), ARGV[6] == '1'
allow_when_full()
check_types()
local time = clock()
local shared = start < 0
if shared then
  local at = call('HMGET', key('meta'), 'light_cursor', 'light_began')
  start, began = tonumber(at[1] or 0), tonumber(at[2] or 0)
end
-- Workers share their passes. Another one begins soon after only if there is an id to requeue.
local age = time - began
if shared and start == 0 and age >= 0 and age < @LIGHT_MS@ and not is_mark_due(config, time) then
  return { 0, 0, 0, 0, -1, began }
end
if start == 0 then
  began = time
  forget_marks(config, time)
end
local page = call('LRANGE', key('processing'), -start - count, -start - 1)

-- Keep the place for the next page; at the end of a pass forget the marks that it has not met.
local function go_on(following)
  if following < 0 then forget_missed(config, began, start + #page == 0) end
  if shared and (start > 0 or following > 0) then
    call('HSET', key('meta'), 'light_cursor', math.max(0, following), 'light_began', began)
  end
end

if #page == 0 then
  go_on(-1)
  return { 0, 0, 0, 0, -1, began }
end
local leases = leases_of(page)
local claims = call('HMGET', key('leased'), unpack(page))
local marks = call('EXISTS', key('unleased')) == 1
local others = call('EXISTS', key('others')) == 1
local gone, back, ghosts, left, marked, clear, seen, met = {}, {}, 0, 0, {}, {}, {}, {}

-- Whether an id without a lease may be requeued now. `place`: the number of older ids in the list.
local function is_abandoned(id, claim, place)
  if claim then
    -- `run_due` finds those that it knows of.
    return own or not (call('ZSCORE', key('due'), id) or call('ZSCORE', key('holders'), claim.worker))
  elseif waits_for_retry(id) then
    return own
  elseif config.stray == 0 then
    return true
  end
  if others and seen_since(time, id, place, 'others') then return true end
  local since = marks and seen_since(time, id, place)
  if since and time - since >= config.stray then return true end
  if note and not since then
    marked[#marked + 1] = mark_of(time, place)
    marked[#marked + 1] = id
  end
  left = left + 1
  return false
end

-- The earliest of a worker's claims count as crashed: see `collect` in lib/back.
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

-- End a lease of Tenure's that its worker has not kept. Returns where the item belongs: `queue`, `processing`, or
-- `aside`.
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
  local id, place = page[n], start + #page - n
  if leases[n] then
    clear[#clear + 1] = id
    if note and not is_ours(leases[n]) then met[#met + 1], met[#met + 2] = mark_of(time, place), id end
  elseif call('EXISTS', key('item:' .. id)) == 0 then
    gone[#gone + 1], clear[#clear + 1] = -place - 1, id
    ghosts = ghosts + 1
    forget_claim(id, claim_of(claims[n]))
  else
    local claim = claim_of(claims[n])
    local data = claim and call('MGET', key('item:' .. id))[1]
    if data and claim.hash ~= hash_of(data) then
      claim = nil -- of an earlier item of the id
    end
    if seen[id] or is_abandoned(id, claim, place) then
      local to = seen[id] or claim and lapse(id, claim, data) or 'queue'
      if to ~= 'processing' then gone[#gone + 1] = -place - 1 end
      if to == 'queue' and not seen[id] then back[#back + 1] = id end
      seen[id] = to
    end
  end
end
strike(key('processing'), gone)
if #back > 0 then
  call('LPUSH', key('queue'), unpack(back))
  call('ZREM', key('unleased'), unpack(back))
  call('ZREM', key('others'), unpack(back))
  call('ZREM', key('later'), unpack(back))
end
if marks and #clear > 0 then call('ZREM', key('unleased'), unpack(clear)) end
if #marked > 0 then
  call('ZADD', key('unleased'), unpack(marked))
  call('PEXPIRE', key('unleased'), config.stray + @CALLERS_MARK_MS@)
end
if #met > 0 then
  call('ZADD', key('others'), unpack(met))
  call('PEXPIRE', key('others'), @MARK_MS@)
end
local following = #page < count and -1 or start + #page - #gone
go_on(following)
return { #page, #back, ghosts, left, following, began }
