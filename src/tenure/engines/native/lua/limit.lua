-- limit: one limit, as Redis knows it.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV name
-- Returns: {what is stored or '', its state or '', places that are held, {queue's prefix, lanes that wait...}, now in ms}
-- Invariant: changes nothing.
--@include begin
local name, waiting = ARGV[1], {}
for n, queue in ipairs(call('SMEMBERS', key('gates:' .. name))) do
  if n > @MAX_GATES@ then break end
  waiting[#waiting + 1] = queue
  waiting[#waiting + 1] = call('ZCARD', queue .. ':gate:' .. name)
end
local stored, state = call('HGET', key('limits'), name), call('GET', key('limit:' .. name))
return { stored or '', state or '', call('SCARD', key('places:' .. name)), waiting, (clock()) }
