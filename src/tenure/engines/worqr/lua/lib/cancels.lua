-- lib cancels: cancel what waits or is aside, and ask for what runs.
--@include view uniques pids

-- Note a request for a process of Tenure, and send its worker a message. The first request counts.
local function ask(pid, job, body)
  if not job.x then
    job.x = body
    records.save(pid, job)
  end
  call('PUBLISH', shared_key('signal:' .. job.w), queue)
end

-- Originals know this message only.
local function publish_cancel(task) call('PUBLISH', base .. '_' .. queue .. '_cancel', task) end

-- End a job in `cancelled` that waits for its retry or its task. `md5`: of its bytes; nil: its marker is left to
-- `unmark`.
local function cancel_aside(config, time, pid, job, body, md5)
  local data = job.d
  forget(pid, job)
  if md5 then job.m = free_last(data, md5) else leave_to_unmark(data) end
  finish(config, time, pid, job, data, 'cancelled', body)
end

local function discard(pid, job)
  if job.s == 'scheduled' or job.s == 'unroutable' then leave_to_unmark(job.d) end
  forget(pid, job)
end

-- Keep a record of a task that was taken out of the queue. `marked`: it had its marker until now.
local function cancel_waiting(config, time, token, session, data, body, marked)
  local known = counts.of(data)
  counts.drop(data)
  local pid = new_pid(token, session)
  local job = { s = '', w = '', n = token, t = time, k = '', f = known.f, c = known.c, u = known.u, h = name_of(data),
    m = marked }
  finish(config, time, pid, job, data, 'cancelled', body)
  limit_new_counters()
end
