-- lib suspects: what a worker holds beside which a suspect would run: a job that was running when two workers died.
--@include back holding company

-- What a worker holds, as claims {claimed, kind, doubtful, cleared}.
local function held_claims(config, time, worker)
  local held = {}
  for n, pid in ipairs(call('ZRANGE', key('held:' .. worker), 0, -1)) do
    local job = job_of(pid)
    held[n] = job and { job.t, job.k, job.u, is_cleared(config, time, job) } or { time, '', 0, false }
  end
  return held
end
