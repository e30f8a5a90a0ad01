-- lib holding: what a worker holds.

-- The token under which a worker holds a job; nil for none.
local function token_of(worker, id)
  local job = job_of(id)
  return job and job.s == 'active' and job.w == worker and digits(job.n) or nil
end
