-- extend: let a job be held for `ms` from now.
-- KEYS[1] prefix
-- ARGV session number config worker id token ms
-- Returns: '1', or '0' when the lease is no longer ours.
-- Invariant: only the holder of the token can extend.
--@include begin remember config
local session, number, worker, id = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local token, ms = ARGV[6], tonumber(ARGV[7])
local config = configure(ARGV[3])
local held_key = key('held:' .. worker)
allow_when_full()
--@include once
local time = clock()
local mine, deadline, rest = string.match(call('HGET', held_key, id) or '', '^(%d+) (%d+)( .*)$')
if mine ~= token then
  return remember(session, number, '0')
end
if string.match(rest, '^ %d+ h') then
  -- A lease by hand has no heartbeat: its deadline is also its worker's.
  call('ZADD', key('holders'), time + ms, worker)
  call('ZREM', key('suspects'), worker)
  deadline = time + ms
elseif tonumber(deadline) ~= 0 then
  -- The worker ends the attempt by itself; only one that is wedged does not.
  deadline = time + ms + config.overdue
end
call('HSET', held_key, id, token .. ' ' .. deadline .. rest)
return remember(session, number, '1')
