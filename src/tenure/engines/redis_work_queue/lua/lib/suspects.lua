-- lib suspects: jobs that a worker holds while a suspect would run, a job that was running when two workers died.
--@include apart

-- What a worker holds, as claims {claimed, kind, doubtful}.
local function held_claims(held_key)
  local ids, held = call('ZRANGE', held_key, 0, -1), {}
  local claims = #ids > 0 and call('HMGET', key('leased'), unpack(ids)) or {}
  local tries = #ids > 0 and call('HMGET', key('attempts'), unpack(ids)) or {}
  for n in ipairs(ids) do
    local claim = claim_of(claims[n])
    local _, _, doubtful = counted(tries[n], claim and claim.hash)
    held[n] = { claim and claim.claimed or 0, claim and claim.kind or '', doubtful }
  end
  return held
end
