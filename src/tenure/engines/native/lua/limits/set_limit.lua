-- set_limit: store numbers of a limit, which replace the code's numbers at once; or remove them.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV session number name clear concurrency interval burst
-- clear 1: remove what is stored, also a rest. An empty number leaves what is stored.
-- Returns: 1, or 0 when there was nothing to remove.
-- Invariant: every queue in which jobs wait for the limit tries one of them.
--@include begin answers lanes
local session, number, name, clear = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
allow_when_full()
local again = recall(session, number)
if again then return again end
local stored = call('HGET', key('limits'), name)
local used, rests = string.match(call('GET', key('limit:' .. name)) or '', '^(%d+) (%d+)$')
local time, micros = clock()

-- Write until when the rate is used up and the limit rests.
local function write()
  local ms = math.max(math.ceil((used - micros) / 1000), rests - time)
  if ms > 0 then
    call('SET', key('limit:' .. name), digits(used) .. ' ' .. digits(rests), 'PX', digits(ms + 1000))
  else
    call('DEL', key('limit:' .. name))
  end
end

if clear == '1' then
  local is_resting = used and tonumber(rests) > time
  if not stored and not is_resting then return remember(session, number, '0') end
  call('HDEL', key('limits'), name)
  if is_resting then
    used, rests = tonumber(used), 0
    write()
    redis.pcall('ZREM', key('resting'), name)
  end
else
  local numbers = { string.match(stored or '::', '^(%d*):(%d*):(%d*)$') }
  for n = 1, 3 do
    if ARGV[4 + n] ~= '' then numbers[n] = ARGV[4 + n] end
  end
  call('HSET', key('limits'), name, table.concat(numbers, ':'))
  if used and numbers[2] ~= '' then
    -- What was used up under other numbers counts no longer than these allow.
    used = math.min(tonumber(used), micros + (tonumber(numbers[3]) or 1) * tonumber(numbers[2]))
    rests = tonumber(rests)
    write()
  end
end
use_limits()
open_lanes.open_all(name)
return remember(session, number, '1')
