-- lib duework: what is due whenever a worker calls: retries, and the jobs of dead workers.
--@include back silence

-- A retry goes to the left end, as with the originals.
local function promote(time, limit)
  local due = call('ZRANGEBYSCORE', key('scheduled'), '-inf', time, 'LIMIT', 0, limit)
  for _, id in ipairs(due) do
    local job = records.of(id)
    local data = job and data_of(id, job)
    if data then
      give_back(time, 'LPUSH', id, job, data)
    elseif job then
      lose(time, id, job)
    else
      call('ZREM', key('scheduled'), id)
    end
  end
  held.wake(#due)
  return #due
end

-- Answers how many retries came due, how many jobs came back, ms until more is due or -1, and whether dead workers
-- still hold jobs. Does nothing where a newer release has written: see lib layout.
local function run_due(config, time, limit, beating)
  local amnesty, before = note_activity(config, time, beating)
  if not amnesty then return 0, 0, -1, false end
  held.run_due(time)
  local reclaimed, again, rest = reap(config, time, amnesty, before, limit)
  local promoted = promote(time, limit)
  local due = call('ZRANGE', key('scheduled'), 0, 0, 'WITHSCORES')[2]
  return promoted, reclaimed, until_next(time, again, due and math.ceil(tonumber(due))), rest
end
