-- finish: complete an item at length: by the token of a lease, even of one that has ended, or by its id alone.
-- KEYS[1] prefix
-- ARGV session number id token worker hash
-- `token`: '' for an item made by hand, which ends with any data and any holder. `hash`: of the leased data.
-- Returns: '1', or '0' when there is no such item, or by token when another client holds it or its data is another.
-- Invariant: of any number of calls for one item, one answers '1', and no copy of its id is left in `processing`.
--@include begin types answers gone transition
local session, number, id = ARGV[1], ARGV[2], ARGV[3]
local token, worker, leased_hash = ARGV[4], ARGV[5], ARGV[6]
local again = transition(session, number)
if again then return again end
-- Whether the caller may end the item with its lease: after the lease, until another client has one. A lease of another
-- caller of the drop-in client does not count: the first of them that has done the job completes it, as with the
-- original.
local function has_right()
  local lease, claim, hash = lease_of(id), claim_of(call('HGET', key('leased'), id)), seen_hash(key('item:' .. id))
  if claim and claim.token == token and claim.worker == worker then
    if stands_on(claim, lease, hash) then return true end
    forget_claim(id, claim)
    return false
  end
  -- A lease of Tenure's may have gone from the wire before its time. A worker's has no time.
  local is_dropin = claim and claim.kind == 'n' and (not lease or wire_token(lease) == claim.token)
  local lives = lease or claim and (claim.deadline == 0 or claim.deadline > clock())
  return hash == leased_hash and (is_dropin or not lives) and not waits_for_retry(id, lease)
end

if call('EXISTS', key('item:' .. id)) == 0 or token ~= '' and not has_right() then
  return remember(session, number, '0', '@DROPIN_ANSWER_MS@')
end
local there = leave_processing({ id })[id]
-- A second copy in a long queue stays until a claim meets it.
local is_short = call('LLEN', key('queue')) <= (there and @COPIES_FEW@ or @COPIES_MAX@)
if not there or is_short then take_out(key('queue'), { id }, is_short) end
remove_item(id)
if call('EXISTS', key('meta')) == 1 then call('HINCRBY', key('meta'), 'completed', 1) end
return remember(session, number, '1', '@DROPIN_ANSWER_MS@')
