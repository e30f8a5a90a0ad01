-- advance_limits: let time pass for limits, in a test: rates and rests end `ms` sooner.
-- KEYS[1] prefix of the namespace
-- ARGV session number ms name...
-- Returns: 1
-- Invariant: a limit has no key after its time is over. Leases keep their places.
--@include begin answers
local session, number, ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
allow_when_full()
local again = recall(session, number)
if again then return again end
local time = clock()
for i = 4, #ARGV do
  local name = key('limit:' .. ARGV[i])
  local used, rests = string.match(call('GET', name) or '', '^(%d+) (%d+)$')
  if used then
    used, rests = math.max(0, tonumber(used) - ms * 1000), math.max(0, tonumber(rests) - ms)
    if rests > time then
      redis.pcall('ZADD', key('resting'), digits(rests), ARGV[i])
    else
      redis.pcall('ZREM', key('resting'), ARGV[i])
    end
    local left = math.max(math.ceil(used / 1000), rests) - time
    if left > 0 then
      call('SET', name, digits(used) .. ' ' .. digits(rests), 'PX', digits(left + 1000))
    else
      call('DEL', name)
    end
  end
end
return remember(session, number, '1')
