-- enqueue_shaped: add jobs of which some have a lane, a priority or a unique key, or are persistent. As `enqueue` else.
-- KEYS[1] prefix
-- ARGV session number room (id record due rule)...
-- room: as with `enqueue`; with `?` behind it, only jobs whose lane, key or id is here are added: see lib asked.
-- Returns: a string of one character a job: 1 added, 0 existed, or the letter of what was done because another job has its
-- unique key (see `resolve`), ? it belongs to another partition; then `<length>:<id>` of the other job for every letter, and `!` as with `enqueue`.
-- Invariant: a job that was added is in `jobs` and in exactly one of its lane, the list of its priority, `ready`,
-- `scheduled` and `again`. Without room for all nothing is added.
--@include begin types answers find reshape admit large layout words noted
local session, number, room, map, asks = ARGV[1], ARGV[2], tonumber(ARGV[3]), '0', ''
--@include once
if not room then
  room, map, asks = string.match(ARGV[3], '^(%d+) (%d+)(%??)$')
  room = tonumber(room)
end
local outdated_map = outdated(tonumber(map))
if outdated_map then return outdated_map end
local time, micros = clock()
local begun_at = digits(micros)
check_types()
local shape_at = {}
for i = 4, #ARGV, 4 do
  if #ARGV[i + 3] > 1 then
    shape_at[i] = shape_of('0 ' .. ARGV[i + 1])
    shapes.check(shape_at[i])
  end
end

local is_here
if asks ~= '' then
--@part asked
end

local function is_new(id, own)
  return call('HEXISTS', key('jobs'), id) == 0 and not (own and has_ended(id, time))
end

-- Whether a job would be added; a key that one before it takes is `taken`.
local function adds(id, at, taken)
  local rule = ARGV[at + 3]
  if is_here and not is_here[at] then return false end
  if not is_new(id, string.sub(rule, 1, 1) == '1') then return false end
  local _, unique = uniques.key_of(shape_at[at] or '')
  local other = unique and uniques.rival(unique, time)
  local follows = other and string.find(rule, '^.w?%d*a') and call('HEXISTS', key('again'), unique) == 0
    and find_owner(unique, other) == 'active'
  if not unique or not taken['key ' .. unique] and (not other or follows) then
    taken['key ' .. (unique or '')] = true
    return true
  end
  return false
end

local full = refusal(room, 4, adds)
if full then return full end
note_layout()
local answers, others, ready, scheduled, later = {}, {}, {}, {}, {}
local lanes, order = {}, {}

-- Give a waiting job the payload of another, with the limits and the share that follow from its arguments; it keeps the rest of its
-- shape and the time of its enqueue, and its place where its line is the same.
local function rewrite(id, state, old, record)
  local first, payload = string.match(record, '^([^\n]*)\n(.*)$')
  local asked, plain = shape_of(record), string.match(first, '^(.-) [gklmnpu]=') or first
  local shape = reshape(shape_of(old), shapes.word(asked, 'm'), shapes.word(asked, 'g'))
  local line = (string.match(old, '^%d+ ') or word_of(begun_at, 0) .. ' ') .. plain .. ' ' .. shape
  call('HSET', key('jobs'), id, line .. '\n' .. payload)
  -- A job of this call is not in `scheduled` yet.
  if state == 'ready' and not later[due_entry(id, old)] then change_line(id, old, shape) end
end

-- Another job has the key: j nothing was done, e the other job is as good, p and d it got the payload (d: and waits again from now),
-- a the one that runs after it got the payload; nil: this one is to run after it.
local function resolve(policy, wait, unique, other, record)
  local state, _, old = find_owner(unique, other)
  local waits = state == 'scheduled' or state == 'ready' or state == 'unroutable' and task_of(old) == task_of('0 ' .. record)
  if policy == 'p' and waits then
    rewrite(other, state, old, record)
    return 'p'
  elseif policy == 'd' and waits then
    rewrite(other, state, old, record)
    local entry = due_entry(other, old)
    if call('ZSCORE', key('scheduled'), entry) then
      local begun = tonumber(string.sub(old, 1, 13))
      local due = math.min(time + wait, begun + @POSTPONE_MOST@ * wait)
      call('ZADD', key('scheduled'), math.max(due, time), entry)
    end
    return 'd'
  elseif policy == 'a' and state == 'active' then
    local following = call('HGET', key('again'), unique)
    if following then
      rewrite(following, 'scheduled', call('HGET', key('jobs'), following), record)
      return 'a', following
    end
    return nil
  end
  return (policy == 'e' or policy == 'a') and 'e' or 'j'
end

-- Answers the letter, the other job's id, and whether the job is to wait until the other has ended.
local function contend(id, record, shape, rule)
  local mode, unique = uniques.key_of(shape)
  if not mode then return nil end
  local window, policy, wait = string.match(rule, '^.w?(%d*)(%a?)(%d*)')
  local other = uniques.rival(unique, time)
  if other then
    local letter, following = resolve(policy, tonumber(wait), unique, other, record)
    if letter then return letter, following or other end
    call('HSET', key('again'), unique, id)
    uniques.own_key(unique, other, '0')
    return nil, nil, true
  end
  uniques.own_key(unique, id, mode == 'w' and digits(time + tonumber(window)) or '0')
end

local function line_up(id, record, shape, at)
  local lane = shapes.lane_of(shape)
  if at > time then
    local entry = due_entry(id, record)
    scheduled[#scheduled + 1] = at
    scheduled[#scheduled + 1] = entry
    later[entry] = true
  elseif lane then
    if not lanes[lane] then
      order[#order + 1] = lane
      lanes[lane] = {}
    end
    table.insert(lanes[lane], id)
    lanes[lane].limit = tonumber(shapes.word(shape, 'n') or 1)
  elseif shapes.word(shape, 'p') then
    shapes.place(id, shape, false)
  else
    ready[#ready + 1] = id
  end
end

for i = 4, #ARGV, 4 do
  local id, due, rule = ARGV[i], ARGV[i + 2], ARGV[i + 3]
  local record = word_of(begun_at, (i - 4) / 4) .. ' ' .. ARGV[i + 1]
  -- rule: 0 or 1 (an id of the caller's own); for a job with a shape more: - for none, else w<ms> (for how long its key
  -- is unique, mode w) and what to do when another has it: j reject, e existing, p replace, a rerun, d<ms> postpone.
  local shape, letter, other, follows = shape_at[i] or '', nil, nil, false
  local own = string.sub(rule, 1, 1) == '1'
  note_size(#record)
  note_limits(shape)
  if has_key(shape) and not (is_here and not is_here[i]) and is_new(id, own) then
    letter, other, follows = contend(id, ARGV[i + 1], shape, rule)
  end
  if is_here and not is_here[i] then
    answers[#answers + 1] = '?'
  elseif letter then
    others[#others + 1] = #other .. ':' .. other
    answers[#answers + 1] = letter
  elseif (not own or not has_ended(id, time)) and call('HSETNX', key('jobs'), id, record) == 1 then
    if not follows then line_up(id, record, shape, due_time(due, time)) end
    answers[#answers + 1] = 1
  else
    answers[#answers + 1] = 0
  end
end
if #order > 0 then lane_line.append(order, lanes) end
--@include queued
return remember(session, number, table.concat(answers) .. table.concat(others) .. woke)
