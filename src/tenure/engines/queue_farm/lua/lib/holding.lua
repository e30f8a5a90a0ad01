-- lib holding: what a worker holds.
--@include back

-- Its leases as claims {claimed, kind, doubtful}.
local function held_claims(worker)
  local claims = {}
  for _, id in ipairs(call('HKEYS', key('held:' .. worker))) do
    local lease, job = lease_of(worker, id), job_of(id)
    if lease then claims[#claims + 1] = { lease.claimed, lease.kind, job and job.doubtful or 0 } end
  end
  return claims
end
