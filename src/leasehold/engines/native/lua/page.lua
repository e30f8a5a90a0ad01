-- page: jobs in one state. Waiting ones in the order in which they run, ended ones newest first.
-- KEYS[1] prefix
-- ARGV state offset limit
-- Returns: {{id, record, tries, due, worker, claim, end}...}, '' where it does not apply.
-- Invariant: changes nothing.
--@include begin
local state, offset, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local last = offset + limit - 1
local rows, seen = {}, {}

local function add(id, due, worker, claim)
  local record = call('HGET', key('jobs'), id)
  -- An entry without a job, or the second mention of one.
  if record and not seen[id] then
    seen[id] = true
    rows[#rows + 1] = { id, record, call('HGET', key('tries'), id) or '', due, worker, claim, '' }
  end
end

-- Entries of `isolated` and then of `ready`.
local function entries(from, to)
  local isolated = call('LLEN', key('isolated'))
  local ids = from < isolated and call('LRANGE', key('isolated'), from, to) or {}
  if to >= isolated then
    for _, id in ipairs(call('LRANGE', key('ready'), math.max(0, from - isolated), to - isolated)) do
      ids[#ids + 1] = id
    end
  end
  return ids
end

-- Those that wait from `offset` on, without ghosts. They are known from the front only, so with ghosts about the lists
-- are read from there, as far as one call may look.
local function ready_ids()
  if call('EXISTS', key('ghosts')) == 0 or last > @MAX_GHOST_LOOK@ then
    return entries(offset, last)
  end
  local ids, ghosts, passed = {}, {}, 0
  for _, id in ipairs(entries(0, @MAX_GHOST_LOOK@)) do
    if not ghosts[id] then
      ghosts[id] = tonumber(call('HGET', key('ghosts'), id) or 0)
    end
    if ghosts[id] > 0 then
      ghosts[id] = ghosts[id] - 1
    else
      passed = passed + 1
      if passed > offset then
        ids[#ids + 1] = id
      end
    end
    if #ids >= limit then
      break
    end
  end
  return ids
end

if state == 'ready' then
  for _, id in ipairs(ready_ids()) do
    add(id, '', '', '')
  end
elseif state == 'scheduled' then
  local entries = call('ZRANGE', key('scheduled'), offset, last, 'WITHSCORES')
  for i = 1, #entries, 2 do
    add(entries[i], entries[i + 1], '', '')
  end
elseif state == 'active' then
  local skip = offset
  for _, worker in ipairs(call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)) do
    local held = call('HLEN', key('held:' .. worker))
    if skip >= held then
      skip = skip - held
    elseif #rows < limit then
      local entries = call('HGETALL', key('held:' .. worker))
      for i = 1 + 2 * skip, #entries, 2 do
        if #rows < limit then
          add(entries[i], '', worker, entries[i + 1])
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
    rows[#rows + 1] = { id, call('HGET', key('kept'), id) or '', '', '', '', '', call('HGET', key('ended'), id) or '' }
  end
end
return rows
