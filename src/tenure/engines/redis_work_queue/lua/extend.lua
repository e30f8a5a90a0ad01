-- extend: let an item be held for `ms` from now.
-- KEYS[1] prefix
-- ARGV session number config worker id token ms
-- Returns: '1', or '0' when the worker does not hold the lease.
-- Invariant: only the holder of the token can extend.
--@include begin types answers leases claims transition
local session, number, worker, id = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local token, ms = ARGV[6], tonumber(ARGV[7])
local config = cjson.decode(ARGV[3])
local answer_ms = config.meta == 0 and @DROPIN_ANSWER_MS@ -- of the drop-in client
local again = transition(session, number)
if again then return again end
local time = clock()
local claim = claim_of(call('HGET', key('leased'), id))
if not claim or claim.token ~= token or claim.worker ~= worker then
  return remember(session, number, '0', answer_ms)
end
if not stands(id, claim, lease_of(id)) then return remember(session, number, '0', answer_ms) end
local wire = config.wire
if tonumber(claim.kind) == nil then
  claim.deadline, wire = time + ms, ms
  call('ZADD', key('due'), claim.deadline + config.grace, id)
end
set_lease(id, token .. ' ' .. worker, wire)
call('HSET', key('leased'), id, claim_text(claim))
return remember(session, number, '1', answer_ms)
