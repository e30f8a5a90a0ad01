-- why: one job, and what it depends on, for an operator who asks why it does not run.
-- KEYS[1] prefix
-- ARGV id
-- Returns: {its row as in show.lua, {name, value...}}, see engines/native/why.py; empty for a job that is not known.
-- The row of a job that is being moved is empty.
-- Invariant: changes nothing; reads at most WHY_LOOK entries of a list, and WHY_LOOK claims.
--@include begin wake find shown lanerow levels onhold holding
local id, facts = ARGV[1], {}
local time = clock()
local function note(name, value)
  if value and value ~= '' then facts[#facts + 1], facts[#facts + 2] = name, tostring(value) end
end

-- How many entries of a list are before this one, at most WHY_LOOK.
local function note_place(name, list, entry)
  note(name, call('LPOS', list, entry, 'MAXLEN', @WHY_LOOK@) or math.min(call('LLEN', list), @WHY_LOOK@))
end

-- Another job, which is in the way: its id, its state, and the worker that holds it.
local function note_other(name, other)
  if not other then return end
  note(name, other)
  local state, detail, _, claim = find(other)
  note(name .. '_state', state)
  if state == 'active' then
    note(name .. '_worker', detail)
    note(name .. '_since', string.match(claim, '^%d+ (%d+)'))
  elseif state == 'scheduled' then
    note(name .. '_due', detail)
  end
end

-- A job that occupies a lane, the earliest in its order, among the first WHY_LOOK of the queue.
local function occupant_of(lane)
  local first, rank
  local found = call('HSCAN', key('busy'), '0', 'COUNT', @WHY_LOOK@)[2]
  for i = 2, #found, 2 do
    local number, name = string.match(found[i], '^(%d+) (.*)$')
    if name == lane and (not rank or tonumber(number) < rank) then first, rank = found[i - 1], tonumber(number) end
  end
  return first
end

-- How many jobs of this queue each worker holds, and the job that has run longest, among WHY_LOOK claims.
local function note_held()
  local longest, since, looked = nil, nil, 0
  for _, worker in ipairs(call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)) do
    local claims = call('HGETALL', key('held:' .. worker))
    looked = looked + #claims / 2
    note('holder', #claims / 2 .. ' ' .. worker)
    for i = 2, #claims, 2 do
      local began = tonumber(string.match(claims[i], '^%d+ (%d+)'))
      if began and (not since or began < since) then longest, since = claims[i - 1], began end
    end
    if looked >= @WHY_LOOK@ then break end
  end
  note('longest', longest)
  note('longest_since', since)
end

-- The jobs of this queue that hold places of a limit, up to three, and the other queues that do.
local function note_places(name)
  for queue, claimed in pairs(places_taken(shared_key('places:' .. name))) do
    if queue ~= prefix then note('holding_queue', queue) end
    for _, job in ipairs(queue == prefix and jobs_holding(queue, claimed, 3) or {}) do note('holding', job[1]) end
  end
end

local function note_limit(name, lane)
  note('limit', name)
  note('limit_stored', redis.pcall('HGET', shared_key('limits'), name))
  note('limit_state', redis.pcall('GET', shared_key('limit:' .. name)))
  note('limit_taken', redis.pcall('SCARD', shared_key('places:' .. name)))
  note('limit_moment', call('ZSCORE', key('moments'), name))
  note('limit_gate', call('ZRANK', key('gate:' .. name), lane))
  note_places(name)
end

-- A lane, and what is before the job in it.
local function note_lane(lane)
  local list = key('lane:' .. lane)
  local row = lane_row(lane)
  note('lane', lane)
  note('lane_busy', row[3])
  note('lane_limit', row[4])
  note('lane_parked', row[5])
  note('lane_blocked', row[6][1])
  note('lane_hold', hold_left(lane, time))
  local place = call('LPOS', list, id, 'MAXLEN', @WHY_LOOK@)
  if not place then -- it may have been out of line before: then its entry has its rank
    for n, entry in ipairs(call('LRANGE', list, 0, @WHY_LOOK@ - 1)) do
      if lanes.entry_of(entry) == id then place = n - 1 end
    end
  end
  note('lane_place', place or math.min(row[2], @WHY_LOOK@))
  if row[3] > 0 then note_other('occupant', occupant_of(lane)) end
  if place ~= 0 then note('lane_front', (lanes.entry_of(call('LINDEX', list, 0) or ''))) end
  local gate = call('HGET', key('gated'), lane)
  if gate then return note_limit(gate, lane) end
  local share = string.match(lane, '^@[^@]*@(.+)$')
  note('share', share)
  if share then note_place('share_place', key('share:' .. share), lane) end
  note_place('turn', key('turns'), share and '$' .. share or lane)
end

-- How many jobs without a lane are served before this priority.
local function note_higher(priority)
  local higher = 0
  for _, level in ipairs(waiting_levels(true)) do
    if level <= tonumber(priority) then break end
    higher = higher + call('LLEN', key(level == 0 and 'ready' or 'ready:' .. level))
  end
  note('higher', higher)
end

local function note_ready(record)
  if call('LPOS', key('isolated'), id) then
    note_place('suspect', key('isolated'), id)
    for name in string.gmatch(shapes.word(shape_of(record), 'm') or '', '([^:,]+):[^,]*') do
      if call('HEXISTS', key('gated'), '@!' .. name) == 1 then return note_limit(name, '@!' .. name) end
    end
    return
  end
  local shape = shape_of(record)
  local lane = shape ~= '' and shapes.lane_of(shape)
  if lane then return note_lane(lane) end
  note_higher(shapes.word(shape, 'p') or '0')
  note_place('before', key(shapes.list_of(shape)), id)
end

-- Whether the job is on its way to another server or partition.
local function is_moving()
  for n, row in ipairs(call('LRANGE', key('moving'), 0, @WHY_LOOK@)) do
    if n > 1 and cmsgpack.unpack(row)[2] == id then return '1' end
  end
end

local state, detail, record, claim = find(id)
local moving = not state and is_moving()
if not state and not moving then return {} end
local row = state and shown(id, state, detail, record, claim) or {}
local meta = call('HMGET', key('meta'), 'layout', 'amnesty')
note('now', time)
note('layout', meta[1])
note('moving', moving)
if not record then return { row, facts } end -- it has ended, or is on its way
note('amnesty', meta[2])
note('paused', call('HGET', key('settings'), 'paused'))
note('hold', hold_left('', time))
-- Redis refuses this command as it refuses all writes, also for want of memory. It writes nothing: there is no such
-- list.
local answer = redis.pcall('LINSERT', key('why'), 'BEFORE', '', '')
note('refused', type(answer) == 'table' and answer.err)
local shape = shape_of(record)
if state == 'ready' then
  note_ready(record)
  note_held()
elseif state == 'scheduled' and detail == '' then
  local owner = string.match(call('HGET', key('unique'), select(2, uniques.key_of(shape))) or '', '^%d+ (.*)$')
  note_other('owner', owner)
elseif state == 'active' then
  note('lease_ends', call('ZSCORE', key('holders'), detail))
  note('silent', call('ZSCORE', key('suspects'), detail))
end
return { row, facts }
