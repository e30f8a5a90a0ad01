-- page: a page of jobs in one state.
-- KEYS[1] prefix
-- ARGV state offset limit place number mark entry config
-- `place` to `entry`: the cursor, see lib pages; `place` '' for the first page.
-- Returns: {the next cursor, empty at the end; {row as in lib/view...}}
-- Invariant: no job changes its place. Of the jobs that run, looks at MAX_GHOST_LOOK at most.
--@include view counts pages
local state = ARGV[1]
open_page(2)
local rows = {}
local function add_row(row) rows[#rows + 1] = row or nil end
local function add(id) add_row(row_of(id)) end

if state == 'ready' then
  -- Jobs are taken on the right.
  read_line(waiting, function(data)
    local known = counts.of(data)
    return known.f + known.c > 0 and known.f .. ' ' .. known.c or '-'
  end, function(data) add_row(waiting_row(data)) end)
elseif state == 'active' then
  read_sorted('active', running(), function(entry) add_row(running_row(entry)) end)
elseif state == 'unroutable' then
  read_parked(add)
elseif state == 'scheduled' then
  read_set('scheduled', key('scheduled'), false, add)
else
  note_ends(cjson.decode(ARGV[8]), (clock()), state)
  read_set(state, key(state), true, add)
end
return { next_cursor(), rows }
