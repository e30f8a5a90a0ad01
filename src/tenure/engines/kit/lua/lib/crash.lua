-- lib crash: how a job crashed, and whether the crash ends it. See docs/decisions/0008-crashes-and-suspects.md.

-- For how many ms nothing is claimed with a job, by the kind of its claim: see lib company.
local function claim_window(kind) return tonumber(string.match(kind, '^[xy](%d+)$') or nil) end

-- Whether a job has run longer than its window, and so is not to blame for a death right after another job began.
-- (The clock of Redis may have been set back since.)
local function is_steady(config, time, claimed, kind)
  local age = time - (tonumber(claimed) or time)
  return age > (claim_window(kind) or config.steady) or age < 0
end

-- How a job crashed, by the kind of its claim: 'known' when its holder has no other job (h), 'alone' when no job ran
-- beside it that could be to blame, 'beside' when only suspects did that had run for long, 'shared' for one of several.
local function crash_of(config, time, kind, claimed)
  local letter = string.match(kind or '', '^([xy])%d')
  if letter and not is_steady(config, time, claimed, kind) then
    return letter == 'x' and 'alone' or 'beside'
  end
  return kind == 'h' and 'known' or 'shared'
end

-- The error of a job that crashed too often.
local function crash_body(crashes)
  local message = 'What ran this job died or stalled ' .. crashes .. ' times.'
  return cjson.encode({ type = 'Crashed', message = message, traceback = '' })
end

-- Whether a crash is the job's own for certain.
local function is_own(how) return how == 'alone' or how == 'known' end

-- Whether this crash ends a job in `broken`. Two crashes must be its own for certain, or as many as can be after
-- `config.alone` deaths; the others are `doubtful`. A job that always meets suspects that do not end needs two more.
local function is_limit(config, how, crashes, doubtful)
  if how == 'beside' then return crashes >= config.max_crashes + 2 end
  return is_own(how) and crashes >= config.max_crashes
    and crashes - doubtful >= math.min(2, config.max_crashes - config.alone)
end
