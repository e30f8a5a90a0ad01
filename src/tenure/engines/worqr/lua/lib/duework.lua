-- lib duework: what is due whenever a worker calls: retries, and the jobs of dead workers.
--@include back silence

local function promote(time, limit)
  local due = call('ZRANGEBYSCORE', key('scheduled'), '-inf', time, 'LIMIT', 0, limit)
  for _, pid in ipairs(due) do
    local job = job_of(pid)
    if job then
      keep_counts(time, job)
      forget(pid, job)
      call('LPUSH', waiting, job.d)
    else
      call('ZREM', key('scheduled'), pid)
    end
  end
  wake(#due)
  return #due
end

-- Answers how many retries came due, how many jobs came back, ms until more is due or -1, and whether dead workers still hold
-- jobs. Does nothing where a newer release has written: see lib layout.
local function run_due(config, time, limit, beating)
  local amnesty, before, back = note_activity(config, time, beating)
  if not amnesty then return 0, 0, -1, false end
  limit_new_counters()
  remove_silent(time)
  local reclaimed, again, rest = reap(config, time, amnesty, before, limit)
  local promoted = promote(time, limit)
  local due = call('ZRANGE', key('scheduled'), 0, 0, 'WITHSCORES')[2]
  return promoted, reclaimed, until_next(time, again, due and math.ceil(tonumber(due))), rest
end
