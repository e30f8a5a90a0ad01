-- lib suspects: what a worker holds beside which a suspect would run, a job that was running when two workers died.
--@include company

-- What a worker holds of this queue that has not been running for long (`young`, if anything): how many suspects, and the most
-- crashes that one of them had in company (`worst`). `doubtful`: suspects that have run for long.
local function company_of(config, time, held_key)
  local company, ids = { count = 0, worst = 0, young = false, doubtful = false }, call('ZRANGE', held_key, 0, -1)
  if #ids == 0 then
    return company
  end
  local claims, tries = call('HMGET', key('leased'), unpack(ids)), call('HMGET', key('attempts'), unpack(ids))
  for n in ipairs(ids) do
    local claim = claim_of(claims[n])
    local _, _, doubtful = counted(tries[n], claim and claim.hash)
    if claim and not is_steady(config, time, claim.claimed, claim.kind) then
      company.young = true
      company.count = company.count + (doubtful >= config.isolate and 1 or 0)
      company.worst = math.max(company.worst, doubtful)
    elseif doubtful >= config.isolate then
      company.doubtful = true
    end
  end
  return company
end
