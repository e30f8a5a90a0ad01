-- forget_sent: forget jobs that another queue has taken.
-- KEYS[1] prefix
-- ARGV queue number
-- number: of the last job that the queue has taken.
-- Returns: how many jobs for the queue are left.
-- Invariant: a job with a higher number stays. Sending it again is harmless by nature.
--@include begin
local queue, number, taken = ARGV[1], tonumber(ARGV[2]), 0
allow_when_full()
local list = key('out:' .. queue)
for _, text in ipairs(call('LRANGE', list, 0, @MAX_BATCH@ - 1)) do
  if tonumber(cmsgpack.unpack(text)[1]) > number then break end
  taken = taken + 1
end
call('LTRIM', list, taken, -1)
local left = call('LLEN', list)
if left == 0 then call('SREM', key('outs'), queue) end
return left
