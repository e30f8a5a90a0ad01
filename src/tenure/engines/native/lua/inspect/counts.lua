-- counts: a queue in numbers.
-- KEYS[1] prefix
-- ARGV
-- Returns: {scheduled, ready, active, unroutable, completed, failed, broken, cancelled, {name, total...},
-- {setting, value...}, parked lanes, blocked lanes, suspects that wait, jobs that wait for a limit, jobs on their way
-- to other queues, the number of the oldest of these or ''}
-- Invariant: changes nothing.
--@include begin
local active, unroutable = 0, 0
for _, worker in ipairs(call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)) do
  active = active + call('HLEN', key('held:' .. worker))
end
for n, task in ipairs(call('SMEMBERS', key('unroutable'))) do
  if n <= @MAX_HOLDERS@ then unroutable = unroutable + call('ZCARD', key('unroutable:' .. task)) end
end
local meta = call('HMGET', key('meta'), 'ghosts', 'laned')
local ready = call('LLEN', key('ready')) + call('LLEN', key('isolated')) + tonumber(meta[2] or 0)
for _, level in ipairs(call('ZRANGE', key('priorities'), 0, -1)) do
  ready = ready + call('LLEN', key('ready:' .. level))
end
-- The jobs of lanes at a gate.
local function limited_jobs()
  local count = 0
  for i, lane in ipairs(call('HSCAN', key('gated'), '0', 'COUNT', @MAX_GATES@)[2]) do
    if i % 2 == 1 then count = count + call('LLEN', key('lane:' .. lane)) end
  end
  return count
end

-- What other queues have not taken: see lib sending.
local outgoing, oldest = 0, ''
for _, queue in ipairs(call('SRANDMEMBER', key('outs'), @MAX_HOLDERS@)) do
  outgoing = outgoing + call('LLEN', key('out:' .. queue))
  for _, first in ipairs(call('LRANGE', key('out:' .. queue), 0, 0)) do
    local number = cmsgpack.unpack(first)[1]
    if oldest == '' or tonumber(number) < tonumber(oldest) then oldest = number end
  end
end

return {
  call('ZCARD', key('scheduled')) + call('HLEN', key('again')),
  math.max(0, ready - tonumber(meta[1] or 0)),
  active,
  unroutable,
  call('ZCARD', key('completed')),
  call('ZCARD', key('failed')),
  call('ZCARD', key('broken')),
  call('ZCARD', key('cancelled')),
  call('HGETALL', key('meta')),
  call('HGETALL', key('settings')),
  call('HLEN', key('parked')),
  call('HLEN', key('blocked')),
  call('LLEN', key('isolated')),
  limited_jobs(),
  outgoing,
  oldest,
}
