-- lib holding: what a worker holds.

-- The token under which a worker holds a process; nil for none.
local function token_of(worker, pid)
  local job = job_of(pid)
  return job and job.s == 'active' and job.w == worker and digits(job.n) or nil
end
