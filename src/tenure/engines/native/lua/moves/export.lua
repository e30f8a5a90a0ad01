-- export: take jobs out of a queue that moves to another server; or return the jobs of a move that has not ended.
-- KEYS[1] prefix
-- ARGV session number move to limit bytes looks
-- looks: how many entries of lists of waiting jobs to remove, tombstones included.
-- Returns: {name of the move, its destination, ms since it began, {{row, id, the first line of its record if it has
-- limits or a share, or is a member of a group}...}, 1 if the looks ran out}; a row as lib rows has it, as MessagePack.
-- Invariant: a job is in its place or in `moving` (a header and rows), never in none. The jobs of each list are taken
-- from its end. What occupies a lane, and what has ended, is taken when no list of waiting jobs has any left: so
-- nothing behind it starts here. At least one job is taken, if there is one that no worker holds and the looks last.
--@include begin types answers find ends line rows
local session, number, looks = ARGV[1], ARGV[2], tonumber(ARGV[7])
allow_when_full()
local answer = recall(session, number)
if type(answer) == 'table' then return answer end
check_types()
local time = clock()
local begins = page.begin({ ARGV[3], ARGV[4], time }, tonumber(ARGV[5]), tonumber(ARGV[6]))

-- Free a job's lane and its key. Returns the job that waits for this one to end.
local function free(id, shape)
  lane_ends.unblock(id)
  lane_ends.leave(shape, id)
  local mode, unique = uniques.key_of(shape)
  local owner = string.match(mode and call('HGET', key('unique'), unique) or '', '^%d+ (.*)$')
  if owner ~= id then return nil end
  local following = call('HGET', key('again'), unique)
  call('HDEL', key('again'), unique)
  uniques.drop_key(unique)
  return following
end

-- Take a job that waits. False: there is no room for it. A job that waits for this one to end goes with it, in the same
-- page.
local function take(kind, id, place, follows)
  local size = call('HSTRLEN', key('jobs'), id) + call('HSTRLEN', key('tries'), id)
  if size == 0 then return true end
  if not follows and page.is_over(size) then return false end
  local record = call('HGET', key('jobs'), id)
  local shape = shape_of(record)
  page.note(rows.of(kind, id, record, call('HGET', key('tries'), id) or '', place, shape), size)
  local following = shape ~= '' and free(id, shape)
  call('HDEL', key('jobs'), id)
  call('HDEL', key('tries'), id)
  call('HDEL', key('then'), id)
  if following then take('f', following, '', true) end
  return true
end

-- Whether an entry belongs to the job with its id, and is not a tombstone. The tombstones of a name are in front of the
-- job.
local function is_here(list, id)
  local name = tombstone_name(list, id)
  if list == 'isolated' or call('HEXISTS', key('ghosts'), name) == 0 then return true end
  local state, _, record = find(id)
  if state == 'ready' and shapes.list_of(shape_of(record)) == list and not call('LPOS', key('isolated'), id) then
    return true
  end
  is_tombstone(list, id)
  return false
end

-- Take jobs from the end of a list. Returns how many entries were removed, and whether there is no room for more.
local function take_entries(list)
  local entries, kind = call('LRANGE', key(list), -page.left, -1), list == 'isolated' and 'i' or 'w'
  local removed = 0
  for n = #entries, 1, -1 do
    local id = lanes.entry_of(entries[n])
    if page.left <= 0 or is_here(list, id) and not take(kind, id, '') then break end
    removed, looks = removed + 1, looks - 1
    if looks <= 0 then page.left = 0 end
  end
  if removed > 0 then call('LTRIM', key(list), 0, 0 - removed - 1) end
  return removed, removed < #entries or page.left <= 0
end

local function take_line(list)
  repeat
    local removed, full = take_entries(list)
    if full then return false end
  until removed == 0
  local level = string.match(list, '^ready:(.*)$')
  if level then call('ZREM', key('priorities'), level) end
  return true
end

local function take_lane(lane)
  local full
  if call('EXISTS', key('lane:' .. lane)) == 0 then
    -- Another program has emptied it: it would be found without end.
    turns.remove(lane)
    return true
  end
  lanes.change({ lane }, false, function(waiting)
    repeat
      local removed
      removed, full = take_entries('lane:' .. lane)
      call('HINCRBY', key('meta'), 'laned', 0 - removed)
      waiting[1] = waiting[1] - removed
    until full or removed == 0
  end)
  return not full
end

local function take_lanes()
  local from = ''
  repeat
    local found, on = some_lanes(from, page.left)
    for _, lane in ipairs(found) do
      if not take_lane(lane) then return false end
    end
    from = on
  until on == '' and #found == 0
  return true
end

local function take_lines()
  for _, line in ipairs(lines()) do
    if page.left <= 0 or not (line == '' and take_lanes() or line ~= '' and take_line(line)) then return false end
  end
  drop_tombstones()
  return true
end

local function take_scheduled()
  local found = call('ZRANGE', key('scheduled'), 0, page.left - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    if not take('s', (due_id(found[i])), found[i + 1]) then return false end
    call('ZREM', key('scheduled'), found[i])
  end
  return page.left > 0
end

-- They wait in line at the other server, where a worker may have their tasks.
local function take_unroutable()
  for _, task in ipairs(call('SMEMBERS', key('unroutable'))) do
    local parked = key('unroutable:' .. task)
    for _, id in ipairs(call('ZREVRANGE', parked, 0, page.left - 1)) do
      if not take('w', id, '') then return false end
      call('ZREM', parked, id)
    end
    if call('EXISTS', parked) == 0 then call('SREM', key('unroutable'), task) end
    if page.left <= 0 then return false end
  end
  return true
end

local function take_ends(state)
  local found = call('ZRANGE', key(state), 0, math.max(0, page.left - 1), 'WITHSCORES')
  for i = 1, page.left > 0 and #found or 0, 2 do
    local id, ended = found[i], call('HGET', key('ended'), found[i]) or ''
    local record = call('HGET', key('kept'), id)
    if page.is_over(#ended + #(record or '')) then return false end
    if record and tonumber(found[i + 1]) > time then
      local shape = shape_of(record)
      page.note(rows.of('e', id, record, ended, state .. ' ' .. found[i + 1], shape), #ended + #record)
      free(id, shape)
    end
    forget(state, { id }, false)
  end
  return page.left > 0
end

if begins and not answer then
  local _ = take_lines() and take_scheduled() and take_unroutable()
    and take_ends('failed') and take_ends('broken') and take_ends('cancelled')
  answer = looks > 0 and '1' or '2'
  remember(session, number, answer)
end
local found, header, kept = page.rows()
for n, row in ipairs(found) do
  local shape = shape_of(row[3])
  local is_shown = shape ~= '' and (shapes.word(shape, 'm') or shapes.word(shape, 'g') or shapes.word(shape, 'f'))
  found[n] = { kept[n], row[2], is_shown and string.match(row[3], '^[^\n]*\n') or '' }
end
return { header[1], header[2], time - header[3], found, answer == '2' and 1 or 0 }
