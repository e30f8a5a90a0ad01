-- lib view: a job as the inspector sees it. A row is {id, state, bytes, failures, crashes, doubtful crashes, error, due
-- ms, worker, token, claimed ms, ended ms, expires ms}.
--@include adopt back counts

local function text(value) return value and tostring(value) or '' end

-- The row of a job that waits; nil for data that is not a job.
local function waiting_row(data)
  if data == PHANTOM then return nil end
  local known = counts.of(data)
  return { name_of(data), 'ready', data, known.f, known.c, known.u, text(known.e), '', '', '', '', '', '' }
end

local function foreign_row(data) return { name_of(data), 'active', data, 0, 0, 0, '', '', '', '', '', '', '' } end

-- Whether a record still has its place on the wire: originals trim and remove failed and broken jobs.
local function is_there(job)
  if job.s == 'failed' then return call('LPOS', failed_list, job.d) ~= false end
  if job.s == 'broken' then return call('HEXISTS', broken_hash, job.d) == 1 end
  return job.s ~= 'scheduled' and job.s ~= 'active' or is_still_held(nil, job)
end

-- A record; nil when it or its place is gone.
local function row_of(id)
  local job = records.of(id)
  if not job or not is_there(job) then return nil end
  local due = job.s == 'scheduled' and call('ZSCORE', key('scheduled'), id)
  local is_held, ends = job.s == 'active', job.s == 'failed' or job.s == 'broken' or job.s == 'cancelled'
  local was_held = is_held or ends and job.n > 0
  return {
    id, job.s, job.d, job.f, job.c, job.u, text(job.e), due or '', was_held and job.w or '',
    was_held and digits(job.n) or '',
    was_held and digits(job.t) or '', ends and digits(job.ended) or '', ends and digits(job.expires) or '',
  }
end

local function running()
  local found, fields = call('HSCAN', progress, 0, 'COUNT', @MAX_GHOST_LOOK@)[2], {}
  for n = 1, #found, 2 do
    local job = records.of(name_of(found[n]))
    if found[n] ~= PHANTOM and not (job and job.s == 'scheduled' and job.d == found[n]) then
      fields[#fields + 1] = found[n]
    end
  end
  return fields
end

local function running_row(data)
  local id = name_of(data)
  local job = records.of(id)
  return job and job.s == 'active' and job.d == data and row_of(id) or foreign_row(data)
end

-- Records for the jobs that ended at other clients.
local function note_ends(config, time, state)
  if state == 'failed' or state == 'broken' then adopt(config, time) end
end
