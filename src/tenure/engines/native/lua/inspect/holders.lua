-- holders: the workers that hold jobs of a queue, and how many.
-- KEYS[1] prefix
-- ARGV
-- Returns: {worker, held, worker, held...}
-- Invariant: changes nothing.
--@include begin
local found = {}
for _, worker in ipairs(call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)) do
  found[#found + 1] = worker
  found[#found + 1] = call('HLEN', key('held:' .. worker))
end
return found
