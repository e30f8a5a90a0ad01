-- set_limit: store numbers of a limit, which replace those of the code at once; or remove them.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV session number name clear concurrency interval burst
-- clear 1: remove what is stored. Of the numbers, an empty one leaves what is stored.
-- Returns: 1, or 0 when there was nothing to remove.
-- Invariant: every queue in which jobs wait for the limit tries one of them.
--@include begin remember lanes
local session, number, name, clear = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
allow_when_full()
--@include once
local stored = call('HGET', key('limits'), name)
if clear == '1' then
  if not stored then return remember(session, number, '0') end
  call('HDEL', key('limits'), name)
else
  local numbers = { string.match(stored or '::', '^(%d*):(%d*):(%d*)$') }
  for n = 1, 3 do
    if ARGV[4 + n] ~= '' then numbers[n] = ARGV[4 + n] end
  end
  call('HSET', key('limits'), name, table.concat(numbers, ':'))
end
limited = true
has_limits()
open_lanes.open_all(name)
return remember(session, number, '1')
