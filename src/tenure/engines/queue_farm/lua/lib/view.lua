-- lib view: how a job that has not ended is shown.

-- The row of a job. `lane`: where it was found, if that is known.
local function view_of(id, lane)
  local job = job_of(id)
  if not job or job.finishAt then return nil end
  local lease = job.workerId and lease_of(job.workerId, id)
  if lease and lease.attempts == job.attempts then
    return row_of('active', id, job, lease.lane, 1, { worker = job.workerId, token = lease.token,
      started = lease.claimed })
  end
  lane = lane or job['tenure:lane']
  if runs_elsewhere(job) and not (lane and lengths_of(lane) and call('LPOS', queue_key(lane), id)) then
    return row_of('active', id, job, lane, 1, { worker = job.workerId, started = job.attemptAt })
  end
  return row_of('ready', id, job, lane, 0)
end
