-- lib crashes: count the crashes of jobs after their leases ended without an outcome.
--@include claims ends crash

-- Count a lease of the drop-in client that ended without a completion. This ends no item: it leads to a warning.
local function count_expiry(id, claim, tries)
  local failures, crashes, doubtful = counted(tries, claim.hash)
  local expiries = (expiries_of(tries, claim.hash) or 0) + 1
  call('HSET', key('attempts'), id, attempts_text(failures, crashes, claim.hash,
    ' e' .. expiries .. last_error(tries), doubtful))
end

-- Count a crash. Returns the counts of the job; and if it was a crash too many, the job has ended in broken: `aside`,
-- or `processing` if it has to wait there since another job of its id is aside. `data`: the item, if it is known.
local function count_crash(config, time, id, claim, tries, how, data)
  local failures, crashes, doubtful = counted(tries, claim.hash)
  crashes, doubtful = crashes + 1, doubtful + (is_own(how) and 0 or 1)
  call('HINCRBY', key('meta'), 'crashed', 1)
  local is_over = is_limit(config, how, crashes, doubtful)
  data = is_over and (data or call('MGET', key('item:' .. id))[1])
  if not data then
    call('HSET', key('attempts'), id, attempts_text(failures, crashes, claim.hash, last_error(tries), doubtful))
    return failures, crashes, doubtful, nil
  end
  local body, began = crash_body(crashes), claim.claimed
  local waits = end_badly(config, time, 'broken', id, data, failures, crashes, claim.token, claim.worker, began, body)
  return failures, crashes, doubtful, waits and 'processing' or 'aside'
end
