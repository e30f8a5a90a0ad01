-- lib duework: work that is due, which every claim, heartbeat and maintenance does: retries that are due, leases
-- that have ended, jobs of workers that died.
--@include silence

-- Retries that are due go to the end of the queue. Until then they lie in `processing` with a lease of their own
-- on the wire, so that no cleaner touches them; one that lost it was moved by another client, and needs nothing.
local function promote(time, limit)
  local ids = call('ZRANGEBYSCORE', key('later'), '-inf', time, 'LIMIT', 0, limit)
  if #ids == 0 then return 0 end
  look_for_copies()
  local off, lives = {}, {}
  for _, id in ipairs(ids) do
    local lease, data = lease_of(id), call('MGET', key('item:' .. id))[1]
    local same = waits_for_retry(id, lease, data)
    call('ZREM', key('later'), id)
    if not lease or is_waiting(lease) then
      end_lease(id)
      -- Else another client has completed it, and what is there now is a later item, which a client may be about to
      -- lease.
      if same or not data then off[#off + 1], lives[id] = id, data and true end
    end
  end
  local there = leave_processing(off)
  for _, id in ipairs(off) do
    if there[id] and lives[id] then call('LPUSH', key('queue'), id) end
  end
  return #ids
end

-- End leases by hand after their time.
local function lapse(config, time, limit)
  -- The latest first: what the next call takes comes before them.
  local ids, entries = call('ZRANGE', key('due'), time, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, limit), {}
  for _, id in ipairs(ids) do
    local claim = claim_of(call('HGET', key('leased'), id))
    if claim then entries[#entries + 1] = { id, claim, true } end
    call('ZREM', key('due'), id)
  end
  local workers = {}
  for _, entry in ipairs(entries) do workers[#workers + 1] = entry[2].worker end
  return release_claims(config, time, workers, entries)
end

-- Redis' clock was set back: what else bears a time that was written before.
local function rewind_leases(by)
  for _, suffix in ipairs({ 'due', 'later' }) do
    for _, id in ipairs(call('ZRANGE', key(suffix), 0, @MAX_HELD@ - 1)) do
      call('ZINCRBY', key(suffix), -by, id)
    end
  end
  call('DEL', key('unleased'), key('others'), key('stray'))
end

local function first_score(suffix)
  return tonumber(call('ZRANGE', key(suffix), 0, 0, 'WITHSCORES')[2] or math.huge)
end

-- Do what is due and answer: promoted, reclaimed, milliseconds until something more is due (-1: nothing known).
local function run_due(config, time, limit, beating)
  local amnesty, before, back = note_activity(config, time, beating)
  if newer_layout then return 0, 0, -1 end
  if back > 0 then rewind_leases(back) end
  local promoted = promote(time, limit)
  local reclaimed, again = reap(config, time, amnesty, before, limit)
  reclaimed = reclaimed + lapse(config, time, limit)
  return promoted, reclaimed, until_next(time, again, math.min(first_score('later'), first_score('due')))
end
