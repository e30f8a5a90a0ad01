-- page: a page of jobs in one state.
-- KEYS[1] prefix
-- ARGV state offset limit place number mark entry
-- `place` to `entry`: the cursor, see lib pages; `place` '' for the first page.
-- Returns: {the next cursor, empty at the end; {row as in lib/view...}}
-- Invariant: changes nothing. Of the processes, looks at MAX_GHOST_LOOK at most.
--@include view pages
local state = ARGV[1]
open_page(2)
local rows = {}

local function add(pid)
  local row = row_of(pid)
  if row then rows[#rows + 1] = row end
end

-- Distinguishes an entry of the queue from a later one with the same bytes.
local function mark_of(data)
  local list = counts_of(redis.sha1hex(data))
  local counts = list[#list]
  return counts and counts.f .. ' ' .. counts.c or '-'
end

-- The queue is served on its right.
local function read_queue()
  local size = call('LLEN', waiting)
  local passed = cursor.place ~= '' and passed_in_list(waiting, -1, mark_of) or 0
  read_place(size, passed, function(from, count)
    local found = call('LRANGE', waiting, -from - count, -from - 1)
    for n = #found, 1, -1 do rows[#rows + 1] = waiting_row(found[n]) end
    return { 'queue', digits(size - from - count), mark_of(found[1]), found[1] }
  end)
end

local function processes()
  local found = call('SSCAN', working, 0, 'COUNT', @MAX_GHOST_LOOK@)[2]
  return found
end

if state == 'ready' then
  read_queue()
elseif state == 'active' then
  read_sorted('active', processes(), add)
elseif state == 'unroutable' then
  read_parked(add)
elseif state == 'scheduled' then
  read_set('scheduled', key('scheduled'), false, add)
else
  read_set(state, key(state), true, add)
end
return { next_cursor(), rows }
