-- lib view: a job as the inspector sees it. A row is {id, state, bytes, failures, crashes, doubtful crashes, error, due ms,
-- worker, token, claimed ms, ended ms, expires ms, body of a cancel request}.
--@include back

local function text(value) return value and tostring(value) or '' end

-- A task that waits. Its id is the sha1 of its bytes.
local function waiting_row(data)
  local name = redis.sha1hex(data)
  local list = counts_of(name)
  local counts = list[#list] or { f = 0, c = 0, u = 0 }
  return { name, 'ready', data, counts.f, counts.c, counts.u, text(counts.e), '', '', '', '', '', '', '' }
end

-- A process or a record; nil when it is gone. A process without a record is one of the original.
local function row_of(pid)
  local job = job_of(pid)
  if not job then
    local data = call('LINDEX', process_key(pid), -1)
    return data and { pid, 'active', data, 0, 0, 0, '', '', '', '', '', '', '', '' } or nil
  end
  local data = data_of(pid, job)
  if not data then return nil end
  local due = job.s == 'scheduled' and call('ZSCORE', key('scheduled'), pid)
  local ends = job.s == 'failed' or job.s == 'broken' or job.s == 'cancelled'
  local parked = job.s == 'scheduled' or job.s == 'unroutable'
  return {
    pid, job.s, data, job.f, job.c, job.u, text(job.e), due or '', parked and '' or job.w, parked and '' or digits(job.n),
    parked and '' or digits(job.t), ends and digits(job.ended) or '', ends and digits(job.expires) or '',
    job.x or '',
  }
end

-- The process or record of an id: a process id, or the sha1 of bytes.
local function pid_of(id)
  if call('HEXISTS', key('jobs'), id) == 1 then return id end
  local pid = call('HGET', key('names'), id)
  return pid and call('HEXISTS', key('jobs'), pid) == 1 and pid or nil
end
