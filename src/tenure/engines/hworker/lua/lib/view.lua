-- lib view: a job as the inspector sees it. A row is {id, state, bytes, failures, crashes, doubtful crashes, error, due ms,
-- worker, token, claimed ms, ended ms, expires ms}.
--@include adopt back

local function text(value) return value and tostring(value) or '' end

local function waiting_row(data)
  local id = id_of(data)
  local counts = counts_of(id)
  return { id, 'ready', data, counts.f, counts.c, counts.u, text(counts.e), '', '', '', '', '', '' }
end

local function foreign_row(data) return { id_of(data), 'active', data, 0, 0, 0, '', '', '', '', '', '', '' } end

-- A record; nil when it or its place is gone.
local function row_of(id)
  local job = job_of(id)
  if not job or not is_there(job) then return nil end
  local due = job.s == 'scheduled' and call('ZSCORE', key('scheduled'), id)
  local is_held, ends = job.s == 'active', job.s == 'failed' or job.s == 'broken' or job.s == 'cancelled'
  local was_held = is_held or ends and job.n > 0
  return {
    id, job.s, job.d, job.f, job.c, job.u, text(job.e), due or '', was_held and job.w or '', was_held and digits(job.n) or '',
    was_held and digits(job.t) or '', ends and digits(job.ended) or '', ends and digits(job.expires) or '',
  }
end
