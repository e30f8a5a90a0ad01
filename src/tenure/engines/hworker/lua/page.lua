-- page: a page of jobs in one state.
-- KEYS[1] prefix
-- ARGV state offset limit place number mark entry config
-- `place` to `entry`: the cursor, see lib pages; `place` '' for the first page.
-- Returns: {the next cursor, empty at the end; {row as in lib/view...}}
-- Invariant: no job changes its place. Of the jobs in progress, looks at MAX_GHOST_LOOK at most.
--@include view pages
local state = ARGV[1]
open_page(2)
local rows = {}

local function add(id) rows[#rows + 1] = row_of(id) end

-- Distinguishes an entry of the list from a later one with the same bytes.
local function mark_of(data)
  local counts = counts_of(id_of(data))
  return counts.f + counts.c > 0 and counts.f .. ' ' .. counts.c or '-'
end

-- Jobs are taken on the right.
local function read_list()
  local size = call('LLEN', waiting)
  local passed = cursor.place ~= '' and passed_in_list(waiting, -1, mark_of) or 0
  read_place(size, passed, function(from, count)
    local found = call('LRANGE', waiting, -from - count, -from - 1)
    for n = #found, 1, -1 do
      if found[n] ~= PHANTOM then rows[#rows + 1] = waiting_row(found[n]) end
    end
    return { 'list', digits(size - from - count), mark_of(found[1]), found[1] }
  end)
end

local function read_progress()
  local found, fields = call('HSCAN', progress, 0, 'COUNT', @MAX_GHOST_LOOK@)[2], {}
  for n = 1, #found, 2 do
    local job = job_of(id_of(found[n]))
    if found[n] ~= PHANTOM and not (job and job.s == 'scheduled' and job.d == found[n]) then fields[#fields + 1] = found[n] end
  end
  read_sorted('active', fields, function(data)
    local id = id_of(data)
    local job = job_of(id)
    rows[#rows + 1] = job and job.s == 'active' and job.d == data and row_of(id) or foreign_row(data)
  end)
end

if state == 'ready' then
  read_list()
elseif state == 'active' then
  read_progress()
elseif state == 'unroutable' then
  read_parked(add)
elseif state == 'scheduled' then
  read_set('scheduled', key('scheduled'), false, add)
else
  if state ~= 'cancelled' then adopt(cjson.decode(ARGV[8]), (clock())) end
  read_set(state, key(state), true, add)
end
return { next_cursor(), rows }
