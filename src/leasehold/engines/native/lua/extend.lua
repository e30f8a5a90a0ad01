-- extend: let a job be held for `ms` from now.
-- KEYS[1] prefix
-- ARGV worker id token ms
-- Returns: 1, or 0 when the lease is no longer ours.
-- Invariant: only the holder of the token can extend. Sending it again is harmless by nature.
--@include begin
local worker, id, token, ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local held_key = key('held:' .. worker)
allow_when_full()
local time = clock()
local mine, deadline, rest = string.match(call('HGET', held_key, id) or '', '^(%d+) (%d+)( .*)$')
if mine ~= token then
  return 0
end
-- A lease by hand has no heartbeat: its deadline is also its worker's.
if string.sub(rest, -2) == ' h' then
  call('ZADD', key('holders'), time + ms, worker)
  call('ZREM', key('suspects'), worker)
end
call('HSET', held_key, id, token .. ' ' .. (deadline == '0' and '0' or time + ms) .. rest)
return 1
