-- heartbeat: renew all leases that a worker holds on a queue, and do the work that is due.
-- KEYS[1] prefix
-- ARGV config worker (id token)...
-- Returns: {position of a lease asked about that is lost...}, {id, token, claimed}... held but not asked about, ms
-- until more is due or -1
-- Invariant: a renewed lease is on the wire with a new time to live; a lease that another client has taken, or that has
-- no item, is forgotten. Sending it again is harmless.
--@include begin types back duework orphaned
local config, worker = cjson.decode(ARGV[1]), ARGV[2]
local held_key = key('held:' .. worker)
allow_when_full()
check_types()
local time = clock()
local ids = call('ZRANGE', held_key, 0, -1)
if #ids > 0 then
  call('ZADD', key('holders'), time + config.lease, worker)
  call('ZREM', key('suspects'), worker)
  local found = call('HMGET', key('leased'), unpack(ids))
  local leases, whole = leases_of(ids)
  local lapsed = {}
  for n, id in ipairs(ids) do
    local claim = claim_of(found[n])
    local mine = claim and claim.worker == worker
    if mine and whole[n] and wire_token(leases[n]) == claim.token then
      keep_lease(id, claim.token .. ' ' .. worker, config.wire)
    elseif mine and stands(id, claim, leases[n]) then
      -- The lease expired while this worker or Redis was away, and no client has taken the item since.
      set_lease(id, claim.token .. ' ' .. worker, config.wire)
      lapsed[#lapsed + 1] = id
    elseif mine then
      forget_claim(id, claim)
    else
      call('ZREM', held_key, id)
    end
  end
  into_processing(lapsed)
  retire(worker)
end
local _, _, next_ms = run_due(config, time, @TEND_LIMIT@, worker)
ids = call('ZRANGE', held_key, 0, -1)
local held = {}
for n, text in ipairs(#ids > 0 and call('HMGET', key('leased'), unpack(ids)) or {}) do
  local claim = claim_of(text)
  if claim then held[#held + 1] = { ids[n], claim.token, claim.claimed } end
end
local lost, orphaned = compare(time, held)
return { lost, orphaned, next_ms }
