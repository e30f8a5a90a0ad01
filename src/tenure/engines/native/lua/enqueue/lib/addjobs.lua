-- lib addjobs: add jobs of which some have a lane, a priority or a unique key, or are persistent. A job is {id, record,
-- due, rule};
-- rule: 0 or 1 (an id of the caller's own); for a job with a shape more: - for none, else w<ms> (for how long its key
-- is unique, mode w) and what to do when another has it: j reject, e existing, p replace, a rerun, d<ms> postpone.
-- Needs: digits. Defines: jobs_to_add, add_jobs. Redis: reads and writes.
--@include find reshape admit large layout words noted queued deadlines

-- Read the shapes of jobs, and check the keys of their lines before anything is written.
local function jobs_to_add(jobs)
  for _, job in ipairs(jobs) do
    job.own = string.sub(job[4], 1, 1) == '1'
    job.shape = #job[4] > 1 and shape_of('0 ' .. job[2]) or ''
    if #job[4] > 1 then shapes.check(job.shape) end
  end
  return jobs
end

local function is_new(job, time)
  return call('HEXISTS', key('jobs'), job[1]) == 0 and not (job.own and has_ended(job[1], time))
end

-- Whether a job would be added; a key that one before it takes is `taken`.
local function adds(job, time, taken)
  if job.is_elsewhere or not is_new(job, time) then return false end
  local _, unique = uniques.key_of(job.shape)
  local other = unique and uniques.rival(unique, time)
  local follows = other and string.find(job[4], '^.w?%d*a') and call('HEXISTS', key('again'), unique) == 0
    and find_owner(unique, other) == 'active'
  if not unique or not taken['key ' .. unique] and (not other or follows) then
    taken['key ' .. (unique or '')] = true
    return true
  end
  return false
end

-- Give a waiting job the payload of another, with the limits and the share that follow from its arguments; it keeps the
-- rest of its shape and the time of its enqueue, and its place where its line is the same.
local function rewrite(all, id, state, old, record)
  local first, payload = string.match(record, '^([^\n]*)\n(.*)$')
  local asked, plain = shape_of(record), string.match(first, '^(.-) [afgklmnopux]=') or first
  local shape = reshape(shape_of(old), shapes.word(asked, 'm'), shapes.word(asked, 'g'))
  local line = (string.match(old, '^%d+ ') or word_of(all.begun_at, 0) .. ' ') .. plain .. ' ' .. shape
  call('HSET', key('jobs'), id, line .. '\n' .. payload)
  -- A job of this call is not in `scheduled` yet.
  if state == 'ready' and not all.later[due_entry(id, old)] then change_line(id, old, shape) end
end

-- Another job has the key: j nothing was done, e the other job is as good, p and d it got the payload (d: and waits
-- again from now), a the one that runs after it got the payload; nil: this one is to run after it.
local function resolve(all, policy, wait, unique, other, record)
  local state, _, old = find_owner(unique, other)
  local waits = state == 'scheduled' or state == 'ready' or state == 'unroutable'
    and task_of(old) == task_of('0 ' .. record)
  if policy == 'p' and waits then
    rewrite(all, other, state, old, record)
    return 'p'
  elseif policy == 'd' and waits then
    rewrite(all, other, state, old, record)
    local entry = due_entry(other, old)
    if call('ZSCORE', key('scheduled'), entry) then
      local due = math.min(all.time + wait, tonumber(string.sub(old, 1, 13)) + @POSTPONE_MOST@ * wait)
      call('ZADD', key('scheduled'), math.max(due, all.time), entry)
    end
    return 'd'
  elseif policy == 'a' and state == 'active' then
    local following = call('HGET', key('again'), unique)
    if following then
      rewrite(all, following, 'scheduled', call('HGET', key('jobs'), following), record)
      return 'a', following
    end
    return nil
  end
  return (policy == 'e' or policy == 'a') and 'e' or 'j'
end

-- Returns the letter, the other job's id, and whether the job is to wait until the other has ended.
local function contend(all, job)
  local mode, unique = uniques.key_of(job.shape)
  if not mode then return nil end
  local window, policy, wait = string.match(job[4], '^.w?(%d*)(%a?)(%d*)')
  local other = uniques.rival(unique, all.time)
  if other then
    local letter, following = resolve(all, policy, tonumber(wait), unique, other, job[2])
    if letter then return letter, following or other end
    call('HSET', key('again'), unique, job[1])
    uniques.own_key(unique, other, '0')
    return nil, nil, true
  end
  uniques.own_key(unique, job[1], mode == 'w' and digits(all.time + tonumber(window)) or '0')
end

local function line_up(all, job, record)
  local id, shape, at = job[1], job.shape, due_time(job[3], all.time)
  local lane = shapes.lane_of(shape)
  if at > all.time then
    local entry = due_entry(id, record)
    all.scheduled[#all.scheduled + 1] = at
    all.scheduled[#all.scheduled + 1] = entry
    all.later[entry] = true
  elseif lane then
    if not all.lanes[lane] then
      all.order[#all.order + 1] = lane
      all.lanes[lane] = {}
    end
    table.insert(all.lanes[lane], id)
    all.lanes[lane].limit = tonumber(shapes.word(shape, 'n') or 1)
  elseif shapes.word(shape, 'p') then
    shapes.place(id, shape, false)
  else
    all.ready[#all.ready + 1] = id
  end
end

-- Add a job. Returns the letter of the answer, and the other job that has its key.
local function add(all, job, n)
  local record = word_of(all.begun_at, n) .. ' ' .. job[2]
  note_size(#record)
  note_limits(job.shape)
  if job.is_elsewhere then return '?' end
  local letter, other, follows
  if has_key(job.shape) and is_new(job, all.time) then letter, other, follows = contend(all, job) end
  if letter then return letter, other end
  if job.own and has_ended(job[1], all.time) or call('HSETNX', key('jobs'), job[1], record) == 0 then return '0' end
  if not follows then line_up(all, job, record) end
  deadlines.note(job[1], job.shape, all.time)
  return '1'
end

-- Add what `jobs_to_add` returned, if there is room for this many more jobs. Returns the answer of `enqueue_shaped`, or
-- nil and the error of a queue that is full.
local function add_jobs(jobs, room)
  local time, micros = clock()
  local full = refusal(room, jobs, function(job, taken) return adds(job, time, taken) end)
  if full then return nil, full end
  note_layout()
  local all = {
    time = time, begun_at = digits(micros), ready = {}, scheduled = {}, later = {}, lanes = {}, order = {},
  }
  local answers, others = {}, {}
  for n, job in ipairs(jobs) do
    local letter, other = add(all, job, n - 1)
    answers[n] = letter
    if other then others[#others + 1] = #other .. ':' .. other end
  end
  if #all.order > 0 then lane_line.append(all.order, all.lanes) end
  queue_jobs(all.ready, all.scheduled, all.later)
  return table.concat(answers) .. table.concat(others) .. woke
end
