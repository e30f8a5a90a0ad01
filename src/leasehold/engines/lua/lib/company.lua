-- lib company: which jobs may run beside each other in a worker, when some of them may be to blame for deaths of workers. See
-- docs/decisions/0008-crashes.md.

-- Whether a job has run for a minute (`config.steady`), so that it is not to blame for a death right after another one began.
-- (The clock of Redis may have been set back since.)
local function is_steady(config, time, claimed)
  local age = time - (tonumber(claimed) or time)
  return age > config.steady or age < 0
end

-- How a job crashed that was claimed like this (`kind`): 'known', as its holder has nothing else (h); 'alone', as nothing ran
-- beside it that could be to blame (x); 'late', as it ran alone at first, and others joined it when it was steady; 'shared', as one
-- of several.
local function crash_of(config, time, kind, claimed)
  if kind == 'x' then
    return is_steady(config, time, claimed) and 'late' or 'alone'
  end
  return kind == 'h' and 'known' or 'shared'
end

-- Whether this crash ends a job in `broken`. Late ones prove less, so more of them are needed.
local function is_limit(config, how, crashes)
  return how ~= 'shared' and crashes >= config.max_crashes + (how == 'late' and config.alone or 0)
end

-- How many suspects a worker with this number of slots may hold together, when `worst` is the most crashes that one had.
local function most_together(slots, worst)
  return math.max(1, math.floor(slots / 2 ^ (worst - 1)))
end

-- The worker that gets ready to run a job of this queue alone, and does so still; nil for none.
local function reserved_by(time)
  local till, worker = string.match(call('HGET', key('meta'), 'reserved') or '', '^(%d+) (.*)$')
  if till and tonumber(till) > time and tonumber(till) <= time + @RESERVED_MS@ then
    return worker
  end
end

-- Of a queue one job runs alone at a time: workers of one container die together, and one death must not be blamed on two.
-- `token_of(worker, id)`: under which token that worker holds a job.
local function another_runs_alone(config, time, token_of)
  local noted = call('HGET', key('meta'), 'alone')
  local till, worker, token, id = string.match(noted or '', '^(%d+) (%S+) (%d+) (.*)$')
  return till and tonumber(till) > time and tonumber(till) <= time + config.steady and token_of(worker, id) == token
end

local function note_alone(config, time, worker, token, id)
  call('HDEL', key('meta'), 'reserved')
  call('HSET', key('meta'), 'alone', time + config.steady .. ' ' .. worker .. ' ' .. token .. ' ' .. id)
end

-- Keep a job that is to run alone for a worker, unless another gets ready. Answers whether it is kept.
local function reserve(time, worker)
  if (reserved_by(time) or worker) ~= worker then
    return false
  end
  call('HSET', key('meta'), 'reserved', time + @RESERVED_MS@ .. ' ' .. worker)
  return true
end
