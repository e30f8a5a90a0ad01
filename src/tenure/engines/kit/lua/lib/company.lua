-- lib company: which jobs may run at the same time in a worker while some of them may be to blame for the deaths of
-- workers. See docs/decisions/0008-crashes-and-suspects.md. A claim that keeps other jobs out for a time is marked by
-- its kind: x<ms>, the job runs alone; y<ms>, it runs with suspects that have run for long.
--@include crash

-- For how many ms nothing is claimed with a job that is to run alone. If jobs that joined it later died with it,
-- four times as long, and sixteen times after two such deaths.
local function window_of(config, doubtful)
  return config.steady * 4 ^ math.max(0, math.min(2, doubtful - config.alone))
end

-- How many suspects a worker with this number of slots may hold together, when `worst` is the most crashes that one
-- had.
local function most_together(slots, worst)
  return math.max(1, math.floor(slots / 2 ^ (worst - 1)))
end

-- The suspects of this queue that a worker holds and that have not run for long, of claims {claimed, kind, doubtful}.
-- `worst`: the most doubtful crashes of one of them.
local function company_of(config, time, claims)
  local company = { count = 0, worst = 0 }
  for _, claim in ipairs(claims) do
    if claim[3] > 0 and not is_steady(config, time, claim[1], claim[2]) then
      company.worst = math.max(company.worst, claim[3])
      company.count = company.count + (claim[3] >= config.isolate and 1 or 0)
    end
  end
  return company
end

-- Ask the worker that claims to prepare for a job that has to run alone: -1. Workers are asked one at a time, since
-- each then claims nothing until its other jobs have ended or have run for long. 0: another one is asked.
local function ask_to_prepare(config, time)
  local till = tonumber(call('HGET', key('meta'), 'asked') or nil)
  if till and till > time and till <= time + config.steady then return 0 end
  call('HSET', key('meta'), 'asked', digits(time + config.steady))
  return -1
end
