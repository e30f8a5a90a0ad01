-- lib hold: how a worker takes a task out of the queue. It holds the task in `processes:<pid>`, with the
-- process in `workingProcesses`; the worker is one of `workers`, with a timer.
--@include held counts pids
local function nothing() end
local PERSISTENT = '{"tenure":1,"persistent":true,'

local hold = {
  ahead = nothing, is_phantom = nothing, has_idle_originals = nothing,
  -- Whether the timer of a worker has not expired, so that no original can have failed the worker. It is renewed. A
  -- worker with an expired timer claims nothing until its heartbeat has found what it lost.
  is_shown = function(config, worker)
    local id = wire_id(worker)
    return renew_timer(id, math.max(config.timer, call('PTTL', timer_key(id))))
  end,

  -- Move the task at the right end into a process.
  take = function(source, data, job, _, session)
    local pid = new_pid(job.n, session)
    call('LMOVE', source, process_key(pid), 'RIGHT', 'LEFT')
    call('SADD', working, pid)
    job.h, job.p = name_of(data), string.sub(data, 1, #PERSISTENT) == PERSISTENT and 1 or nil
    call('HSET', key('names'), job.h, pid)
    return pid, data
  end,
}
