-- lib back: bring back leases that were not settled: to the front, in the order of their claims. Leases of the drop-in
-- client go to the end, as with other clients.
--@include leases retire claims crashes

-- Count the crash of a lease that comes back, if it is one: a job that ran alone is the only one to blame.
-- Returns the doubtful crashes of the job, and where a crash too many has put it: see `count_crash`.
local function count_if_crashed(config, time, entry, alone)
  local id, claim = entry[1], entry[2]
  local tries = call('HGET', key('attempts'), id)
  if entry[3] and not may_crash(claim) then count_expiry(id, claim, tries) end
  local how = entry[3] and may_crash(claim) and crash_of(config, time, claim.kind, claim.claimed)
  if how and entry[3] == 'known' then how = 'known' end
  if not how or how == 'shared' and alone[claim.worker] then
    local _, _, doubtful = counted(tries, claim.hash)
    return doubtful
  end
  local _, _, doubtful, place = count_crash(config, time, id, claim, tries, how)
  return doubtful, place
end

-- Bring leases back, for entries {id, claim, crashed} with the highest token first: each job goes to the very front, so
-- the jobs end up in the order of their claims. `crashed` 'known': no other job can have caused it. A job that crashed
-- too often ends in broken. Returns how many of the claims still stood.
local function requeue(config, time, entries)
  local back, off, elsewhere, alone = {}, {}, {}, {}
  look_for_copies()
  for _, entry in ipairs(entries) do
    local id, claim = entry[1], entry[2]
    alone[claim.worker] = alone[claim.worker] or crash_of(config, time, claim.kind, claim.claimed) == 'alone'
    if stands(id, claim, lease_of(id)) then back[#back + 1], off[#off + 1] = entry, id end
    forget_claim(id, claim)
  end
  local there = leave_processing(off)
  for _, id in ipairs(off) do
    if not there[id] then elsewhere[#elsewhere + 1] = id end
  end
  -- Another program's cleaner may have put some into the queue already, when their leases had ended.
  local queued = find(key('queue'), elsewhere, false)
  local front, lonely, over, waits, last = {}, {}, {}, {}, {}
  for _, entry in ipairs(back) do
    local id = entry[1]
    local doubtful, place = count_if_crashed(config, time, entry, alone)
    local is_queued = not there[id] and #queued[id] > 0
    if place == 'processing' then
      waits[#waits + 1] = id
    elseif place == 'aside' then
      over[#over + 1] = is_queued and id or nil
    else
      end_lease(id)
      local list = doubtful >= config.alone and lonely or front
      -- The holder of a lease of the drop-in client may still be at work and complete it later: other items come first.
      if entry[3] and not may_crash(entry[2]) then list = last end
      list[#list + 1] = not is_queued and id or nil
    end
  end
  if #over > 0 then take_out(key('queue'), over, false) end
  if #waits > 0 then into_processing(waits) end
  if #front > 0 then call('RPUSH', key('queue'), unpack(front)) end
  for n = #last, 1, -1 do call('LPUSH', key('queue'), last[n]) end
  -- The latest claim comes first among jobs that are to run alone: a job that kills its worker has mostly just begun.
  for n = #lonely, 1, -1 do call('RPUSH', key('queue'), lonely[n]) end
  return #back
end

local function by_token(a, b) return tonumber(a[2].token) > tonumber(b[2].token) end

-- Add what a worker holds to `entries`. With `crashed` the earliest claims count as crashed: as many as can have been
-- running, which is twice the worker's slots, since some jobs may just have ended. The others were claimed ahead and
-- had not started.
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

-- Release these claims of these workers in one order. Returns how many came back.
local function release_claims(config, time, workers, entries)
  table.sort(entries, by_token)
  local count = requeue(config, time, entries)
  for _, worker in ipairs(workers) do retire(worker) end
  return count
end
