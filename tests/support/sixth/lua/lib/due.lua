-- lib due: jobs whose retry is due become ready. The score of `scheduled` is the time in
-- microseconds: the last three digits are the order of the enqueues.
local function promote(time, limit)
  local due = call('ZRANGEBYSCORE', key('scheduled'), '-inf', '(' .. digits((time + 1) * 1000), 'LIMIT', 0, limit)
  for _, id in ipairs(due) do
    make_ready(id, job_of(id))
  end
  return #due
end

local function next_due()
  local score = call('ZRANGE', key('scheduled'), 0, 0, 'WITHSCORES')[2]
  return score and math.floor(tonumber(score) / 1000)
end
