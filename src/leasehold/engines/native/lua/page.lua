-- page: jobs in one state. Waiting ones in the order in which they run, ended ones newest first.
-- KEYS[1] prefix
-- ARGV state offset limit lane
-- Returns: {{id, record, tries, due, worker, claim, end, progress, cancelling}...}, '' where it does not apply. `worker`: of
-- ready ones, the one that a job of the queue is reserved for.
-- Invariant: changes nothing.
--@include begin wake shape ghosts line company
local state, offset, limit, lane = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local last = offset + limit - 1
local rows, seen = {}, {}

local function add(id, due, worker, claim)
  local record = call('HGET', key('jobs'), id)
  -- An entry without a job, or the second mention of one.
  if record and not seen[id] then
    seen[id] = true
    local progress = claim ~= '' and call('HGET', key('progress'), id) or ''
    local asked = claim ~= '' and call('HGET', key('cancelling'), id) or ''
    rows[#rows + 1] = { id, record, call('HGET', key('tries'), id) or '', due, worker, claim, '', progress, asked }
  end
end

-- Whether an entry is a ghost: as many of a name as are counted, from the front on.
local passed = {}
local function is_passed(name)
  if not passed[name] then
    passed[name] = tonumber(call('HGET', key('ghosts'), name) or 0)
  end
  passed[name] = passed[name] - 1
  return passed[name] >= 0
end

-- The next job of a lane, if it is not too far behind ghosts.
local function head_of(from)
  for _, entry in ipairs(call('LRANGE', key('lane:' .. from), 0, limit)) do
    local id = shapes.entry_of(entry)
    if not is_passed(ghost_in('lane:' .. from, id)) then
      return id
    end
  end
end

local haunted = call('EXISTS', key('ghosts')) == 1
-- Entries `from` to `to` of all lists, ghosts left out, as far as one call may look; `skip`: so many jobs before them too.
local function entries(from, to, skip)
  local ids = {}
  for _, line in ipairs(lines()) do
    local name = line == '' and 'turns' or line
    local length = call('LLEN', key(name))
    if from < length and from <= to then
      for _, entry in ipairs(call('LRANGE', key(name), from, to)) do
        local id = entry
        if line == '' then
          id = head_of(entry)
        elseif haunted and line ~= 'isolated' and is_passed(ghost_in(line, entry)) then
          id = nil
        end
        if id and skip > 0 then
          skip = skip - 1
        elseif id then
          ids[#ids + 1] = id
        end
        if #ids == limit then
          return ids
        end
      end
    end
    from, to = math.max(0, from - length), to - length
  end
  return ids
end

-- Ghosts are known from the front only, so with ghosts about the lists are read from there.
local function ready_ids()
  if not haunted or last > @MAX_GHOST_LOOK@ then
    return entries(offset, last, 0)
  end
  return entries(0, @MAX_GHOST_LOOK@, offset)
end

local function lane_ids()
  local ids, skip = {}, offset
  local from, to = haunted and 0 or offset, haunted and @MAX_GHOST_LOOK@ or last
  for _, entry in ipairs(call('LRANGE', key('lane:' .. lane), from, to)) do
    local id = shapes.entry_of(entry)
    if haunted and is_passed(ghost_in('lane:' .. lane, id)) then
      -- Passed over.
    elseif haunted and skip > 0 then
      skip = skip - 1
    else
      ids[#ids + 1] = id
    end
    if #ids == limit then
      break
    end
  end
  return ids
end

if state == 'ready' then
  local reserved = reserved_by(clock()) or ''
  for _, id in ipairs(lane == '' and ready_ids() or lane_ids()) do
    add(id, '', reserved, '')
  end
elseif state == 'scheduled' then
  local found = call('ZRANGE', key('scheduled'), offset, last, 'WITHSCORES')
  for i = 1, #found, 2 do
    local id = due_id(found[i])
    add(id, found[i + 1], '', '')
  end
  local count = call('ZCARD', key('scheduled'))
  for _, id in ipairs(following(math.max(0, offset - count), limit - #rows)) do
    add(id, '', '', '')
  end
elseif state == 'active' then
  local skip = offset
  for _, worker in ipairs(call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)) do
    local held = call('HLEN', key('held:' .. worker))
    if skip >= held then
      skip = skip - held
    elseif #rows < limit then
      local found = call('HGETALL', key('held:' .. worker))
      for i = 1 + 2 * skip, #found, 2 do
        if #rows < limit then
          add(found[i], '', worker, found[i + 1])
        end
      end
      skip = 0
    end
  end
elseif state == 'unroutable' then
  local skip = offset
  for _, task in ipairs(call('SMEMBERS', key('unroutable'))) do
    local parked = call('ZCARD', key('unroutable:' .. task))
    if skip >= parked then
      skip = skip - parked
    elseif #rows < limit then
      for _, id in ipairs(call('ZRANGE', key('unroutable:' .. task), skip, skip + limit - #rows - 1)) do
        add(id, '', '', '')
      end
      skip = 0
    end
  end
else
  for _, id in ipairs(call('ZREVRANGE', key(state), offset, last)) do
    local kept, ended = call('HGET', key('kept'), id) or '', call('HGET', key('ended'), id) or ''
    rows[#rows + 1] = { id, kept, '', '', '', '', ended, '', '' }
  end
end
return rows
