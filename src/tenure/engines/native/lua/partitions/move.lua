-- move: take jobs out of a partition that they do not belong to since the number of partitions was changed; or answer
-- the jobs of a move that has not ended.
-- KEYS[1] prefix
-- ARGV move id
-- move: its name. id: take only this job; '': continue where the last call stopped.
-- Returns: {name of the move, ms since it began, {row, partition that it belongs to, id}..., the last token of this
-- partition, ms until the next call may find more or -1: nothing is left here that belongs elsewhere}
-- Invariant: a job is in its place or in `moving` (a header and rows), never in none. What a lane has is not taken
-- while anything of the lane waits, runs or blocks here, what has a key while another job here has it, nor a job that
-- waits in line. `mover` has where to continue. Sending it again is harmless.
--@include begin types find ends rows homes
local move, only = ARGV[1], ARGV[2]
allow_when_full()
check_types()
call('HLEN', key('mover'))
local time = clock()
local begins = page.begin({ move, 'partitions', time }, @MOVE_MOST@, @MOVE_BYTES@)
local OVER, STAYS = 'over', 'stays'

local function note(row, home)
  row[9] = home
  page.note(row, #row[3] + #row[4])
end

-- Whether a job must stay: it has a place in its lane, its lane is here, another job has its key, or waits for it to
-- end.
local function must_stay(id, shape)
  local lane, _, unique = shapes.word(shape, 'l'), uniques.key_of(shape)
  return call('HEXISTS', key('busy'), id) == 1 or lane and homes.has_lane(lane)
    or unique and ((uniques.rival(unique, time) or id) ~= id or call('HEXISTS', key('again'), unique) == 1)
end

local take = {}

function take.jobs(id, record)
  local shape = shape_of(record)
  local home, entry = homes.of(id, shape), due_entry(id, record)
  if home == homes.partition then return nil end
  local due = call('ZSCORE', key('scheduled'), entry)
  if not due or must_stay(id, shape) then return STAYS end
  local tries = call('HGET', key('tries'), id) or ''
  if page.is_over(#record + #tries) then return OVER end
  local row = rows.of('s', id, record, tries, due, shape)
  note(row, home)
  if row[7] ~= '' then uniques.drop_key(select(2, uniques.key_of(shape))) end
  call('ZREM', key('scheduled'), entry)
  call('HDEL', key('jobs'), id)
  call('HDEL', key('tries'), id)
  call('HDEL', key('then'), id)
end

function take.ended(id, text)
  local state, expires, head = string.match(text, '^(%S+) %d+ (%d+)[^\n]*\n?([^\n]*)')
  if not state or tonumber(expires) <= time then return nil end
  local record = call('HGET', key('kept'), id) or ''
  local shape = shape_of(record ~= '' and record or head)
  local home = homes.of(id, shape)
  if home == homes.partition then return nil end
  if must_stay(id, shape) then return STAYS end
  if page.is_over(#record + #text) then return OVER end
  note({ 'e', id, record, text, state .. ' ' .. expires, '', '', call('HGET', key('then'), id) or '' }, home)
  forget(state, { id }, false)
end

-- A key that is taken for a time longer than its job.
function take.unique(unique, text)
  local lasts, owner = string.match(text, '^(%d+) (.*)$')
  if not lasts or tonumber(lasts) <= time then return nil end
  local _, owned = uniques.key_of(shape_of(call('HGET', key('jobs'), owner)))
  local home = homes.of_key(unique)
  if owned == unique or home == homes.partition then return nil end
  if page.is_over(0) then return OVER end
  note({ 'k', unique, '', owner, '', '', lasts, '' }, home)
  uniques.drop_key(unique)
end

-- A lane that is parked, and has nothing else.
function take.parked(lane, text)
  local home = homes.of_lane(lane)
  if home == homes.partition then return nil end
  if call('EXISTS', key('lane:' .. lane)) == 1 or lanes.busy_of(lane) > 0 or call('ZSCORE', key('holds'), lane) then
    return STAYS
  end
  if page.is_over(0) then return OVER end
  note({ 'p', lane, '', text, '', '', '', '' }, home)
  lanes.change({ lane }, false, function() call('HDEL', key('parked'), lane) end)
end

-- Jobs that are due, or soon, and that wait for nothing but their move: the first ones first.
local function take_due()
  for _, entry in ipairs(call('ZRANGEBYSCORE', key('scheduled'), '-inf', time + 2 * @LEFT_MS@, 'LIMIT', 0,
    @MOVE_MOST@)) do
    local id = due_id(entry)
    local record = call('HGET', key('jobs'), id)
    if record and take.jobs(id, record) == OVER then return end
  end
end

-- Look at the next page. Returns how much had to stay there, how much was looked at, and whether the page is done.
local function look(phase, cursor)
  local page = call('HSCAN', key(phase), cursor, 'COUNT', has_large() and @MOVE_LARGE@ or @MOVE_MOST@)
  local stuck = 0
  for i = 1, #page[2], 2 do
    local answer = take[phase](page[2][i], page[2][i + 1])
    if answer == OVER then return 0, 0, nil end
    if answer == STAYS then stuck = stuck + 1 end
  end
  return stuck, #page[2] / 2, page[1]
end

local PHASES = { 'jobs', 'ended', 'unique', 'parked' }

-- Continue to look, in a round through all. If nothing stayed, moved or was added in a round, nothing comes any more.
local function continue()
  local state = call('HMGET', key('mover'), 'phase', 'cursor', 'stuck', 'looked', 'dirty', 'rest')
  local phase, cursor, stuck, looked = tonumber(state[1] or 1), state[2] or '0', tonumber(state[3] or 0),
    tonumber(state[4] or 0)
  local more, count, on = 0, 0, nil
  take_due()
  if tonumber(state[6] or 0) <= time then
    more, count, on = look(PHASES[phase], cursor)
  end
  local dirty = page.count > 0 or state[5] == '1'
  stuck, looked = stuck + more, looked + count
  if on == '0' then phase = phase + 1 end
  if phase <= #PHASES then
    call('HSET', key('mover'), 'phase', phase, 'cursor', on or cursor, 'stuck', stuck, 'looked', looked, 'dirty',
      dirty and 1 or 0)
    return
  end
  local is_clean = stuck == 0 and not dirty and call('EXISTS', key('outs')) == 0
  local rest = time + math.max(@LEFT_MS@, math.floor(looked / 5))
  call('HSET', key('mover'), 'phase', 1, 'cursor', '0', 'stuck', 0, 'looked', 0, 'dirty', 0, 'left', stuck, 'rest',
    rest)
  if is_clean then call('HSET', key('mover'), 'clean', homes.version) end
end

if only ~= '' and homes.changes and begins then
  local state, _, record = find(only)
  if state == 'scheduled' then
    take.jobs(only, record)
  elseif state then
    take.ended(only, call('HGET', key('ended'), only) or '')
  end
elseif homes.changes and begins and call('HGET', key('mover'), 'clean') ~= homes.version then
  continue()
end
local found, header, kept = page.rows()
for n, row in ipairs(found) do found[n] = { kept[n], row[9] or -1, row[2] } end
local now = call('HMGET', key('mover'), 'rest', 'clean')
local wait = now[2] == homes.version and -1 or math.max(0, tonumber(now[1] or 0) - time)
return { header[1], time - header[3], found, call('HGET', key('meta'), 'token') or '0', wait }
