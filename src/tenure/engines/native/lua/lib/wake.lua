-- lib wake: idle workers block on a list that holds at most one token. The worker that takes the token claims, and
-- leaves a new one when more jobs wait: one job wakes one worker, a thousand jobs wake as many workers as they need.
-- `woke`: ! if this call has woken a worker. The workers of a queue with partitions wait elsewhere; the caller sees to
-- them.
-- Defines: is_awake, wake_one, woke. Redis: reads and writes.
local awake, woke = nil, ''
-- Whether there is a token. `known`: what the caller has found out.
local function is_awake(known)
  if known ~= nil then awake = known end
  if awake == nil then awake = call('LLEN', key('wake')) > 0 end
  return awake
end

local function wake_one()
  if not is_awake() then
    call('LPUSH', key('wake'), '1')
    awake, woke = true, '!'
  end
end
