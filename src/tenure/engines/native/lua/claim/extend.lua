-- extend: let a job be held for `ms` from now.
-- KEYS[1] prefix
-- ARGV session number config worker id token ms
-- Returns: '1', or '0' when the worker does not hold the lease.
-- Invariant: only the holder of the token can extend.
--@include begin answers
local session, number, worker, id = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local token, ms = ARGV[6], tonumber(ARGV[7])
allow_when_full()
local again = recall(session, number)
if again then return again end
local mine, kind = string.match(call('HGET', key('held:' .. worker), id) or '', '^(%d+) %d+ (%w+)')
if mine ~= token then return remember(session, number, '0') end
if kind == 'h' then
  -- It has no heartbeat. One that is kept has nothing here to be moved: its worker and its keeper know how long it may
  -- run.
  call('ZADD', key('holders'), (clock()) + ms, worker)
  call('ZREM', key('suspects'), worker)
end
return remember(session, number, '1')
