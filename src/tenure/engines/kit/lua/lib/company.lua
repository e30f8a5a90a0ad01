-- lib company: which jobs may run beside each other in a worker while some of them may be to blame for the deaths of workers.
-- See docs/decisions/0008-crashes-and-suspects.md. A claim that keeps other jobs out for a time is marked by its kind: x<ms>, the
-- job runs alone; y<ms>, it runs beside suspects that have run for long.
--@include holding crash

-- For how many ms nothing else is claimed beside a job that is to run alone. If jobs that joined it later died with it, four
-- times as long, and sixteen times after two such deaths.
local function window_of(config, doubtful)
  return config.steady * 4 ^ math.max(0, math.min(2, doubtful - config.alone))
end

-- How many suspects a worker with this number of slots may hold together, when `worst` is the most crashes that one had.
local function most_together(slots, worst)
  return math.max(1, math.floor(slots / 2 ^ (worst - 1)))
end

-- What a worker holds of this queue, for claims {claimed, kind, doubtful, cleared}. `young`: whether it holds jobs that have not run for
-- long, of which `count` are suspects; `worst`: the most doubtful crashes of one of them. `doubtful`: whether it holds suspects
-- that have run for long.
local function company_of(config, time, claims)
  local company = { count = 0, worst = 0, young = false, doubtful = false }
  for _, claim in ipairs(claims) do
    local is_suspect = claim[3] >= config.isolate
    if is_steady(config, time, claim[1], claim[2]) then
      company.doubtful = company.doubtful or is_suspect and not claim[4]
    else
      company.young, company.worst = true, math.max(company.worst, claim[3])
      company.count = company.count + (is_suspect and 1 or 0)
    end
  end
  return company
end

-- The worker that is getting ready to run a job of this queue alone; nil for none.
local function reserved_by(time)
  local till, worker = string.match(call('HGET', key('meta'), 'reserved') or '', '^(%d+) (.*)$')
  if till and tonumber(till) > time and tonumber(till) <= time + @RESERVED_MS@ then
    return worker
  end
end

-- The worker that claims nothing else for now, since it runs a job of this queue alone or gets ready to; '' for none.
local function kept_busy(time)
  local till, worker, token, id = string.match(call('HGET', key('meta'), 'alone') or '', '^(%d+) (%S+) (%d+) (.*)$')
  if till and tonumber(till) > time and token_of(worker, id) == token then return worker end
  return reserved_by(time) or ''
end

local function note_alone(time, window, worker, token, id)
  call('HDEL', key('meta'), 'reserved')
  call('HSET', key('meta'), 'alone', digits(time + window) .. ' ' .. worker .. ' ' .. token .. ' ' .. id)
end

-- Reserve a job that is to run alone for a worker, unless another worker gets ready. Answers whether it is reserved.
local function reserve(time, worker)
  if (reserved_by(time) or worker) ~= worker then return false end
  call('HSET', key('meta'), 'reserved', time + @RESERVED_MS@ .. ' ' .. worker)
  return true
end
