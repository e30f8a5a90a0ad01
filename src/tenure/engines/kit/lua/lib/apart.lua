-- lib apart: jobs of a list that a claim leaves there, since others are held beside which they may not run. Stands in the middle of
-- a claim, where `config`, `time`, `worker`, `kind`, `alone`, `by_hand`, `rows` and the list `waiting` are bound.
local deferred, lonely, how, company = {}, {}, 0, nil
local DEFERRED_MOST = 100

-- Where a job goes that was running when `doubtful` workers died. Answers the list of those that stay: `deferred` when enough of
-- them are held together, `lonely` for one that runs alone and cannot here, or not yet. Else nil, for one that runs alone with
-- the kind of its claim. When this worker gets ready for a lonely one, it claims nothing else in this call.
local function list_of_suspect(doubtful)
  if by_hand or doubtful < config.isolate then return nil end
  company = company or company_of(config, time, held_claims(config, time, worker))
  if doubtful < config.alone then
    local worst = math.max(company.worst, doubtful)
    if company.count >= most_together(tonumber(kind), worst) then return deferred end
    company.count, company.worst = company.count + 1, worst
    return nil
  end
  if (alone == 'now' or alone == 'beside') and #rows == 0 and not company.young then
    how = window_of(config, doubtful)
    return nil, (alone == 'now' and not company.doubtful and 'x' or 'y') .. digits(how)
  end
  if alone ~= 'no' and reserve(time, worker) then how = -1 end
  return lonely
end

-- Return them to the right end of the list, where jobs are taken.
-- They stay first, in their order: a worker that gets ready for one must find it. But many must not hide the other jobs.
local function return_suspects()
  if #deferred > DEFERRED_MOST then
    call('LPUSH', waiting, unpack(deferred))
  else
    for n = #deferred, 1, -1 do call('RPUSH', waiting, deferred[n]) end
  end
  for n = #lonely, 1, -1 do
    call(n > 1 and #lonely > DEFERRED_MOST and 'LPUSH' or 'RPUSH', waiting, lonely[n])
  end
end
