-- lib view: a job as the inspector sees it. A row is {id, state, bytes, failures, crashes, doubtful crashes, error, due
-- ms, worker, token, claimed ms, ended ms, expires ms, body of a cancel request}.
--@include back counts

local function text(value) return value and tostring(value) or '' end

-- A task that waits. Its id is the sha1 of its bytes.
local function waiting_row(data)
  local known = counts.of(data)
  return { name_of(data), 'ready', data, known.f, known.c, known.u, text(known.e), '', '', '', '', '', '', '' }
end

-- A process or a record; nil when it is gone. A process without a record is one of the original.
local function row_of(pid)
  local job = records.of(pid)
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
    pid, job.s, data, job.f, job.c, job.u, text(job.e), due or '', parked and '' or job.w,
    parked and '' or digits(job.n),
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

local function running()
  local found = call('SSCAN', working, 0, 'COUNT', @MAX_GHOST_LOOK@)[2]
  return found
end

local function running_row(pid) return row_of(pid) end

local function note_ends() end -- originals keep none
