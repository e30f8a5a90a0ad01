-- lib back: how claims that were not settled come back: to the front, in the order in which they were made.
--@include leases retire claims ends company

-- The one way back to the front of a queue, for entries {id, claim, crashed} with the highest token first: each goes to
-- the very front, so the order of the claims is the order afterwards. `crashed` 'known': nothing else can have caused it. Who
-- is to blame for too many crashes ends in broken.
-- Answers how many of the claims still stood.
local function put_back(config, time, entries)
  local front, lonely, back, off, elsewhere, over, waits, crashed = {}, {}, {}, {}, {}, {}, {}, 0
  local alone = {}
  look_for_copies()
  for _, entry in ipairs(entries) do
    local id, claim = entry[1], entry[2]
    alone[claim.worker] = alone[claim.worker] or crash_of(config, time, claim.kind, claim.claimed) == 'alone'
    if stands(id, claim, lease_of(id)) then
      back[#back + 1], off[#off + 1] = entry, id
    end
    forget_claim(id, claim)
  end
  local there = leave_processing(off)
  for _, id in ipairs(off) do
    if not there[id] then
      elsewhere[#elsewhere + 1] = id
    end
  end
  -- Somebody else's cleaner may have put some into the queue already, when their leases had ended.
  local queued = find(key('queue'), elsewhere, false)
  for _, entry in ipairs(back) do
    local id, claim = entry[1], entry[2]
    local tries = call('HGET', key('attempts'), id)
    local failures, crashes, doubtful = counted(tries, claim.hash)
    local crash = entry[3] and may_crash(claim)
      and (entry[3] == 'known' and 'known' or crash_of(config, time, claim.kind, claim.claimed))
    -- Beside one that ran alone nothing else is to blame.
    crash = not (crash == 'shared' and alone[claim.worker]) and crash
    if crash then
      crashes, crashed = crashes + 1, crashed + 1
      doubtful = doubtful + (is_own(crash) and 0 or 1)
    end
    if crash and is_limit(config, crash, crashes, doubtful) then
      local data = call('GET', key('item:' .. id))
      if end_by_crashes(config, time, id, data, failures, crashes, claim) then
        waits[#waits + 1] = id
      elseif not there[id] and #queued[id] > 0 then
        over[#over + 1] = id
      end
    else
      if crash then
        call('HSET', key('attempts'), id, attempts_text(failures, crashes, claim.hash, last_error(tries), doubtful))
      end
      end_lease(id)
      if there[id] or #queued[id] == 0 then
        local list = doubtful >= config.alone and lonely or front
        list[#list + 1] = id
      end
    end
  end
  if crashed > 0 then
    call('HINCRBY', key('meta'), 'crashed', crashed)
  end
  if #over > 0 then
    take_out(key('queue'), over, false)
  end
  if #waits > 0 then
    into_processing(waits)
  end
  if #front > 0 then
    call('RPUSH', key('queue'), unpack(front))
  end
  -- Of those that are to run alone the latest claim comes first: what kills has mostly just begun.
  for n = #lonely, 1, -1 do
    call('RPUSH', key('queue'), lonely[n])
  end
  return #back
end

local function by_token(a, b)
  return tonumber(a[2].token) > tonumber(b[2].token)
end

-- What a worker holds, added to `entries`. With `crashed` the earliest claims count as crashed: as many as can have been
-- running, twice its slots since some may just have ended. The others were claimed ahead and did no harm.
local function collect(entries, worker, crashed)
  local ids = call('ZRANGE', key('held:' .. worker), 0, -1)
  local found = #ids > 0 and call('HMGET', key('leased'), unpack(ids)) or {}
  for n, id in ipairs(ids) do
    local claim = claim_of(found[n])
    if claim and claim.worker == worker then
      entries[#entries + 1] = { id, claim, crashed and n <= 2 * (tonumber(claim.kind) or 1000) }
    else
      call('ZREM', key('held:' .. worker), id)
    end
  end
end

-- Give these back, in one order whoever held them. Answers how many.
local function give_back(config, time, workers, entries)
  table.sort(entries, by_token)
  local count = put_back(config, time, entries)
  for _, worker in ipairs(workers) do
    retire(worker)
  end
  return count
end
