-- counts: a queue in numbers.
-- KEYS[1] prefix
-- ARGV
-- Returns: {ready, scheduled, active, unroutable, completed, failed, broken, cancelled, {name, total...}}
-- Invariant: changes nothing.
--@include begin
local active, unroutable = 0, 0
for _, worker in ipairs(call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)) do
  active = active + call('HLEN', key('held:' .. worker))
end
for n, task in ipairs(call('SMEMBERS', key('unroutable'))) do
  if n <= @MAX_HOLDERS@ then
    unroutable = unroutable + call('ZCARD', key('unroutable:' .. task))
  end
end
local ghosts = tonumber(call('HGET', key('meta'), 'ghosts') or 0)
return {
  math.max(0, call('LLEN', key('ready')) + call('LLEN', key('isolated')) - ghosts),
  call('ZCARD', key('scheduled')),
  active,
  unroutable,
  call('ZCARD', key('completed')),
  call('ZCARD', key('failed')),
  call('ZCARD', key('broken')),
  call('ZCARD', key('cancelled')),
  call('HGETALL', key('meta')),
}
