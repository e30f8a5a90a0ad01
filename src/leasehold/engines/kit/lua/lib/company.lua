-- lib company: which jobs may run beside each other in a worker, when some of them may be to blame for deaths of workers. See
-- docs/decisions/0008-crashes.md. A claim that keeps other jobs out for a time says so in its kind: x<ms>, the job runs alone;
-- y<ms>, it runs beside suspects that have run for long.
--@include holding

-- How long nothing else is claimed beside a job that is to run alone: after a death since, in company that joined it later, four
-- times as long, and sixteen times after two.
local function window_of(config, doubtful)
  return config.steady * 4 ^ math.max(0, math.min(2, doubtful - config.alone))
end

local function claim_window(kind)
  return tonumber(string.match(kind, '^[xy](%d+)$') or nil)
end

-- Whether a job has run longer than its window, and so is not to blame for a death right after another job began.
-- (The clock of Redis may have been set back since.)
local function is_steady(config, time, claimed, kind)
  local age = time - (tonumber(claimed) or time)
  return age > (claim_window(kind) or config.steady) or age < 0
end

-- How a job crashed that was claimed like this: 'known', as its holder has nothing else (h); 'alone', as nothing ran beside it that
-- could be to blame; 'beside', as there were suspects that had run for long; 'shared', as one of several.
local function crash_of(config, time, kind, claimed)
  local letter = string.match(kind or '', '^([xy])%d')
  if letter and not is_steady(config, time, claimed, kind) then
    return letter == 'x' and 'alone' or 'beside'
  end
  return kind == 'h' and 'known' or 'shared'
end

-- Whether a crash is the job's own for certain.
local function is_own(how)
  return how == 'alone' or how == 'known'
end

-- Whether this crash ends a job in `broken`: two must be its own for certain, or as many as can be after `config.alone` deaths.
-- `doubtful`: those that are not. One that always meets suspects that do not end needs two more.
local function is_limit(config, how, crashes, doubtful)
  if how == 'beside' then
    return crashes >= config.max_crashes + 2
  end
  return is_own(how) and crashes >= config.max_crashes and crashes - doubtful >= math.min(2, config.max_crashes - config.alone)
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

-- The worker that takes nothing else for now, as it runs a job of this queue alone or gets ready to; '' for none.
local function kept_busy(time)
  local till, worker, token, id = string.match(call('HGET', key('meta'), 'alone') or '', '^(%d+) (%S+) (%d+) (.*)$')
  if till and tonumber(till) > time and token_of(worker, id) == token then
    return worker
  end
  return reserved_by(time) or ''
end

local function note_alone(time, window, worker, token, id)
  call('HDEL', key('meta'), 'reserved')
  call('HSET', key('meta'), 'alone', digits(time + window) .. ' ' .. worker .. ' ' .. token .. ' ' .. id)
end

-- Keep a job that is to run alone for a worker, unless another gets ready. Answers whether it is kept.
local function reserve(time, worker)
  if (reserved_by(time) or worker) ~= worker then
    return false
  end
  call('HSET', key('meta'), 'reserved', time + @RESERVED_MS@ .. ' ' .. worker)
  return true
end
