-- extend: let a lease by hand last for some time from now.
-- KEYS[1] prefix
-- ARGV session number config worker id token ms
-- Returns: 1, or 0 when the lease was lost
-- Invariant: no lease of another worker changes.
--@include begin answers back transition
local session, number, worker, id, token, ms = ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local again = transition(session, number)
if again then return again end
local time, lease = clock(), lease_of(worker, id)
local batch = lease and lease.token == token and standing({ lane = lease.lane, token = token, worker = worker, lease })
if not batch then return remember(session, number, '0') end
-- The lease of a worker lasts as long as its heartbeats.
if lease.kind == 'h' then
  write_fetch(batch, time + ms)
  call('ZADD', key('holders'), time + ms, worker)
end
return remember(session, number, '1')
