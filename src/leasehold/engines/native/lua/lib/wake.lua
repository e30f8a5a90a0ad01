-- lib wake: idle workers block on a list that holds at most one token. Whoever takes it claims, and leaves a new one
-- when more is waiting: one job wakes one worker, a thousand wake as many as it takes.
local function wake_one()
  if call('LLEN', key('wake')) == 0 then
    call('LPUSH', key('wake'), '1')
  end
end
