-- settle: end leases of one worker. A lease that the worker has lost changes nothing.
-- KEYS[1] prefix
-- ARGV session number config worker (id token kind ms body)...
-- kind: c completed, r retry, l released, k crashed, u unroutable, f failed, b broken, x cancelled. `ms` has no place
-- on this wire.
-- Returns: a string of one character a lease: 1 ended, 0 it was held no longer
-- Invariant: a batch ends as a whole, or not at all. What runs again is at the front of its lane, in its order; the
-- lane is free.
--@include begin answers back transition
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local time, letters, lanes, order = clock(), {}, {}, {}
for i = 5, #ARGV, 5 do
  local n = (i - 5) / 5 + 1
  letters[n] = '0'
  local lease = lease_of(worker, ARGV[i])
  if lease and lease.token == ARGV[i + 1] then
    local leases = lanes[lease.lane]
    if not leases then
      leases = { lane = lease.lane, token = lease.token, worker = worker, number = n }
      lanes[lease.lane], order[#order + 1] = leases, leases
    end
    lease.letter, lease.outcome, lease.body = n, ARGV[i + 2], ARGV[i + 4]
    leases[#leases + 1] = lease
  end
end

local woken = false

-- End one job of a batch. Returns whether it waits again.
local function settle_one(lease)
  local kind, who = lease.outcome, { worker = worker, token = lease.token, started = lease.claimed }
  local job = job_of(lease.id)
  woken = woken or job and job.doubtful >= config.isolate
  if kind == 'k' then return not count_crash(config, time, lease, 'known') end
  if kind == 'l' or kind == 'u' then
    uncount_attempt(lease.id)
    return true
  elseif kind == 'r' then
    count('retried')
    if job then call('HSET', job_key(lease.id), 'errorAt', digits(time), 'tenure:error', lease.body) end
    return true
  elseif kind == 'c' then
    count('completed')
    if job then end_on_wire(config, time, lease.id, lease.lane, 'finish') end
  elseif job then
    local failures = math.max(0, job.deliveries - 1 - job.crashes)
    local how = ({ f = 'failed', b = 'invalid', x = 'cancelled' })[kind]
    end_badly(config, time, how, lease.id, job, lease.lane, failures + (kind == 'f' and 1 or 0), lease.body, who)
  end
  return false
end

local function settle_batch(leases)
  table.sort(leases, function(a, b) return a.at < b.at end)
  local ids, again, front, parked = {}, {}, true, nil
  for _, lease in ipairs(leases) do
    letters[lease.letter], ids[#ids + 1] = '1', lease.id
    if settle_one(lease) then again[#again + 1] = lease.id end
    front = front and (lease.outcome == 'l' or lease.outcome == 'k')
    parked = parked or lease.outcome == 'u' and 'task ' .. lease.body
  end
  leave_active(leases.lane, ids)
  to_front(leases.lane, again)
  forget_leases(leases)
  if parked then call('HSET', key('parked'), leases.lane, parked) end
  place(config, time, leases.lane, front and #again > 0)
end

-- Jobs that return to the front do so in the order of the claims; the others keep the order of the call.
table.sort(order, function(a, b)
  local first, second = a[1].outcome == 'l' or a[1].outcome == 'k', b[1].outcome == 'l' or b[1].outcome == 'k'
  if first and second then return tonumber(a.token) > tonumber(b.token) end
  if first ~= second then return first end
  return a.number < b.number
end)
for _, leases in ipairs(order) do
  local batch = batch_of(leases.lane)
  if batch and batch.token == leases.token and batch.size == #leases then
    if standing(leases) then settle_batch(leases) else lose(config, time, leases) end
  end
end
retire(worker)
-- After the end of a suspect another one may start.
if woken and call('EXISTS', key('ready')) == 1 then wake_one() end
return remember(session, number, table.concat(letters))
