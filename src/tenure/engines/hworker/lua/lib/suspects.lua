-- lib suspects: what a worker holds beside which a suspect would run: a job that was running when two workers died.
--@include back apart

-- What a worker holds, as claims {claimed, kind, doubtful}.
local function held_claims(worker)
  local held = {}
  for n, id in ipairs(call('ZRANGE', key('held:' .. worker), 0, -1)) do
    local job = job_of(id)
    held[n] = job and { job.t, job.k, job.u } or { 0, '', 0 }
  end
  return held
end
