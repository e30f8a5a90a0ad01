-- page: jobs in one state. Waiting ones in the order in which they run, ended ones newest first.
-- KEYS[1] prefix
-- ARGV state lane offset limit place number mark entry heads
-- `place` to `entry`: the cursor, see lib pages; `place` '' for the first page.
-- Returns: {the next cursor, empty at the end; {id, record, tries, due, worker, claim, end, progress, cancelling}...},
-- '' where it does not apply. `worker`: of ready ones, the one that takes nothing else for now, see lib/company.
-- `heads` 1: a record is its first line, and the end of a completed job its first two: no payload, no result.
-- Invariant: changes nothing.
--@include begin due line pages
local state, lane = ARGV[1], ARGV[2]
open_page(3)
local rows, seen, heads = {}, {}, ARGV[9] == '1'

local function head_of_record(record) return heads and string.match(record, '^[^\n]*\n') or record end

local function add(id, due, worker, claim)
  local record = call('HGET', key('jobs'), id)
  -- An entry without a job, or the second mention of one.
  if record and not seen[id] then
    seen[id] = true
    local progress = claim ~= '' and call('HGET', key('progress'), id) or ''
    local asked = claim ~= '' and call('HGET', key('cancelling'), id) or ''
    -- Only the newest error: show has all.
    local tries = string.match(call('HGET', key('tries'), id) or '', '^[^\n]*\n?[^\n]*')
    rows[#rows + 1] = { id, head_of_record(record), tries, due, worker, claim, '', progress, asked }
  end
end

-- Whether an entry is a tombstone: as many of a name as are counted, from the front on.
local passed = {}
local function is_passed(name)
  if not passed[name] then passed[name] = tonumber(call('HGET', key('ghosts'), name) or 0) end
  passed[name] = passed[name] - 1
  return passed[name] >= 0
end

-- The next job of a lane, if it is not too far behind tombstones. The jobs of internal lanes are shown later.
local function head_of(from)
  if string.find(from, '^[@$]') then return nil end
  for _, entry in ipairs(call('LRANGE', key('lane:' .. from), 0, limit)) do
    local id = lanes.entry_of(entry)
    if not is_passed(tombstone_name('lane:' .. from, id)) then return id end
  end
end

-- The mark of an entry, different for a later one of the same name: of a lane in `turns` its next entry, of a job when
-- it was enqueued and how often it failed or crashed. '' for one that waits no longer: its tombstone stays where it is.
local function mark_of(list, entry)
  if list == 'turns' then return call('LINDEX', key('lane:' .. entry), 0) or '' end
  local id = lanes.entry_of(entry)
  local enqueued = string.match(call('HGET', key('jobs'), id) or '', '^%d+')
  return enqueued and enqueued .. ' ' .. string.match(call('HGET', key('tries'), id) or '', '^[^\n]*') or ''
end

-- Read on in a list. Tombstones are counted from the front, so a list with tombstones is read from there.
-- Further behind than one call may look, a job that was enqueued again may be shown at its tombstone, too.
local has_tombstones, look = call('EXISTS', key('ghosts')) == 1, @MAX_GHOST_LOOK@
local function read_list(list)
  local name, size, passed = key(list), call('LLEN', key(list)), 0
  if cursor.place == list then
    passed = passed_in_list(name, 1, function(entry) return mark_of(list, entry) end)
  end
  local may_skip = has_tombstones and list ~= 'isolated'
  if not may_skip or passed + skip + left > look then
    local jump = math.min(skip, size - passed)
    passed, skip = passed + jump, skip - jump
  end
  local is_counted = may_skip and list ~= 'turns' and passed + left <= look
  local from = is_counted and 0 or passed
  -- In `turns` not each entry is a job that is shown here.
  local count = (may_skip or list == 'turns') and look or left
  local at = passed
  for n, entry in ipairs(left > 0 and count > 0 and call('LRANGE', name, from, from + count - 1) or {}) do
    local id = list == 'turns' and head_of(entry) or list ~= 'turns' and lanes.entry_of(entry)
    local is_job = id and not (is_counted and is_passed(tombstone_name(list, id)))
    look = look - 1
    if from + n > passed then
      at = from + n
      last = { list, digits(size - at), '', entry }
      if is_job and skip > 0 then
        skip = skip - 1
      elseif is_job then
        add(id, '', '', '')
        left = left - 1
      end
      if left == 0 then break end
    end
  end
  if at < size then more, left = true, 0 end
end

-- Internal lanes, in the order of their names, and lanes of users at a gate: of the first FOLLOW_LOOK of each.
local function limited_lanes()
  local internal, own, seen = {}, {}, {}
  local function add_lane(lane)
    if seen[lane] or string.find(lane, '^@!') then return end
    seen[lane] = true
    table.insert(string.byte(lane) == 64 and internal or own, lane)
  end
  for _, lane in ipairs(turns.in_turn(@FOLLOW_LOOK@)) do
    if string.byte(lane) == 64 then add_lane(lane) end
  end
  for i, lane in ipairs(call('HSCAN', key('gated'), '0', 'COUNT', @FOLLOW_LOOK@)[2]) do
    if i % 2 == 1 then add_lane(lane) end
  end
  table.sort(internal)
  return internal, own
end

-- All jobs of internal lanes, and of a user's lane at a gate the next one.
local function read_limited()
  local internal, own = limited_lanes()
  for _, lane in ipairs(internal) do
    if cursor.place ~= 'gated' and (string.sub(cursor.place, 1, 6) ~= 'lane:@' or 'lane:' .. lane >= cursor.place) then
      read_list('lane:' .. lane)
    end
  end
  if left > 0 and not more then
    read_sorted('gated', own, function(lane)
      local id = head_of(lane)
      if id then add(id, '', '', '') end
    end)
  end
end

-- The lists of waiting jobs from the cursor on. The list of a priority may have gone since.
local function read_lists()
  local function rank(list)
    if list == 'isolated' or list == 'turns' then return list == 'turns' and -0.5 or 1000 end
    return (list == 'gated' or string.find(list, '^lane:')) and -0.6
      or tonumber(string.match(list, '^ready:(.*)$') or nil) or 0
  end
  for _, list in ipairs(lines()) do
    list = list == '' and 'turns' or list
    if cursor.place == '' or rank(list) <= rank(cursor.place) then read_list(list) end
    if list == 'turns' and (cursor.place == '' or rank(cursor.place) >= -0.6) and not more then read_limited() end
  end
end

-- Jobs that wait for another job with their unique key come last: they have no time.
local function read_scheduled()
  if cursor.place ~= 'again' then
    read_set('scheduled', key('scheduled'), false, function(entry, due) add(due_id(entry), due, '', '') end)
  end
  if not more then
    read_sorted('again', following(), function(id) add(id, '', '', '') end)
  end
end

-- Worker by worker, in the order of their names: the order of their leases changes with every heartbeat.
local function read_held()
  local workers = call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)
  table.sort(workers)
  for _, worker in ipairs(workers) do
    if worker >= cursor.place and not more then
      local held = key('held:' .. worker)
      local count = call('HLEN', held)
      if worker ~= cursor.place and skip >= count then
        skip = skip - count
      else
        read_sorted(worker, call('HKEYS', held), function(id) add(id, '', worker, call('HGET', held, id)) end)
      end
    end
  end
end

if state == 'ready' then
  if lane ~= '' then
    read_list('lane:' .. lane)
  else
    read_lists()
  end
  last[3] = more and mark_of(last[1], last[4])
elseif state == 'scheduled' then
  read_scheduled()
elseif state == 'active' then
  read_held()
elseif state == 'unroutable' then
  read_parked(function(id) add(id, '', '', '') end)
else
  read_set(state, key(state), true, function(id)
    local kept, ended = call('HGET', key('kept'), id) or '', call('HGET', key('ended'), id) or ''
    if state ~= 'completed' then
      ended = string.match(ended, '^[^\n]*\n?[^\n]*\n?[^\n]*')
    elseif heads then
      ended = string.match(ended, '^[^\n]*\n?[^\n]*\n?')
    end
    rows[#rows + 1] = { id, head_of_record(kept), '', '', '', '', ended, '', '' }
  end)
end
return { next_cursor(), rows }
