-- lib originals: workers of the original and their processes, which have no owner on the wire.
--@include jobs
local WORKERS_MOST = 1000

-- Whether a live worker of the original serves this queue, and which dead ones do.
local function serving()
  local live, dead = false, {}
  for n, id in ipairs(call('SMEMBERS', base .. ':workers')) do
    if n > WORKERS_MOST then break end
    if not call('ZSCORE', shared_key('wire'), id) and call('SISMEMBER', queues_key(id), queue) == 1 then
      if call('EXISTS', timer_key(id)) == 1 or call('SISMEMBER', base .. ':permanentWorkers', id) == 1 then
        live = true
      else
        dead[#dead + 1] = id
      end
    end
  end
  return live, dead
end

-- Whether this is known for the length of the grace: `marks` has when it was first seen.
local function is_old(config, time, marks, member)
  local since = tonumber(call('ZSCORE', marks, member) or nil)
  if not since or since > time then
    call('ZADD', marks, time, member)
    return false
  end
  return time - since >= config.stray
end

-- Return the task of a process to the front.
local function return_task(pid)
  call('LMOVE', process_key(pid), waiting, 'RIGHT', 'RIGHT')
  end_process(pid)
  call('ZREM', key('foreign'), pid)
end
