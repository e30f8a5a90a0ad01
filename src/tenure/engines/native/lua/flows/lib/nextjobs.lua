-- lib nextjobs: plain jobs that follow plain completions, in a queue without partitions: they need nothing but a place
-- in `ready`. For all others there is lib following.
-- Needs: ARGV. Defines: nexts. Redis: reads and writes.
--@include words queued
local nexts = { after = {}, following = {} }

-- Read them from the bodies of the settlements of kind n, and check the keys. False: they need lib following.
function nexts.read()
  call('LLEN', key('ready'))
  is_awake()
  if call('HEXISTS', key('settings'), 'map') == 1 then return false end
  for i = 5, #ARGV, 6 do
    if ARGV[i + 2] == 'n' then nexts.after[i] = cmsgpack.unpack(ARGV[i + 5]) end
  end
  return true
end

-- The result of a settlement of kind n; nil for the others.
function nexts.result(at) return nexts.after[at] and nexts.after[at][1] end

-- Note that a settlement counts.
function nexts.follow(at)
  local found = nexts.after[at] or {}
  for n = 2, #found do nexts.following[#nexts.following + 1] = found[n] end
end

-- Add the jobs that follow the settlements that count.
function nexts.add(now)
  local begun, ready = now[1] .. string.format('%06d', now[2]), {}
  for n, job in ipairs(nexts.following) do
    local id, record = job[2], word_of(begun, n - 1) .. ' ' .. job[3]
    if call('HSETNX', key('jobs'), id, record) == 1 then ready[#ready + 1] = id end
  end
  queue_jobs(ready)
end
