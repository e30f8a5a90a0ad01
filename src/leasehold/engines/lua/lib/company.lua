-- lib company: which jobs may run beside each other in a worker, when some of them may be to blame for deaths of workers. See
-- docs/decisions/0008-crashes.md.

-- Whether a job has run for so long that it is not to blame for a death right after another one began. (The clock of Redis
-- may have been set back since.)
local function is_steady(config, time, claimed)
  local age = time - (tonumber(claimed) or time)
  return age > config.steady or age < 0
end

-- Suspects that a worker with so many slots may hold together, when the worst of them had so many crashes.
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

-- Keep a job that is to run alone for a worker, unless another gets ready. Answers whether it is kept.
local function reserve(time, worker)
  if (reserved_by(time) or worker) ~= worker then
    return false
  end
  call('HSET', key('meta'), 'reserved', time + @RESERVED_MS@ .. ' ' .. worker)
  return true
end
