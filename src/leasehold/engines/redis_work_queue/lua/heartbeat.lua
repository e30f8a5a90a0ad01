-- heartbeat: renew all leases that a worker holds on a queue, and do the work that is due.
-- KEYS[1] prefix
-- ARGV config worker (id token)...
-- Returns: {position of a lease asked about that is lost...}, {id, token, claimed}... held but not asked about, ms until more
-- is due or -1
-- Invariant: a renewed lease is on the wire with a new time to live; a lease that another client has taken, or whose item is
-- gone, is forgotten. Sending it again is harmless.
--@include begin types back duework
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
local found = #ids > 0 and call('HMGET', key('leased'), unpack(ids)) or {}
local held, known = {}, {}
for n, id in ipairs(ids) do held[id] = claim_of(found[n]) end
local lost, strays = {}, {}
for i = 3, #ARGV, 2 do
  local id = ARGV[i]
  if held[id] and held[id].token == ARGV[i + 1] then
    known[id] = true
  else
    lost[#lost + 1] = (i - 3) / 2
  end
end
-- The reply of a claim younger than two heartbeats may still be on its way to the worker. A claim of a time to come is from
-- before the clock was set back.
for _, id in ipairs(ids) do
  local claim = held[id]
  local age = claim and time - tonumber(claim.claimed)
  if claim and not known[id] and (age >= 2 * @BEAT_MS@ or age < 0) and #strays < 100 then
    strays[#strays + 1] = { id, claim.token, claim.claimed }
  end
end
return { lost, strays, next_ms }
