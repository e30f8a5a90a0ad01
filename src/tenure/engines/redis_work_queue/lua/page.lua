-- page: a page of items in one state.
-- KEYS[1] prefix
-- ARGV state offset limit place number mark entry
-- `place` to `entry`: the cursor, see lib pages; `place` '' for the first page.
-- Returns: {the next cursor, empty at the end; {id, state, data, attempts, due ms, value of the lease, our record of
-- it, end}...}
-- Invariant: changes nothing. Looks through a limited part of `processing` for held items.
--@include begin leases claims view pages
local state = ARGV[1]
open_page(2)
local rows = {}
local live = state == 'ready' or state == 'active' or state == 'scheduled'

local function add(id)
  local row = view_of(id, live and state or nil)
  if row then
    table.insert(row, 1, id)
    rows[#rows + 1] = row
  end
end

-- The mark of an entry of the queue, which distinguishes it from a later entry of the same id.
local function mark_of(id)
  return string.match(call('HGET', key('attempts'), id) or '', '^%d+ %d+') or '-'
end

-- The held ids in the order of their texts: their places in `processing` change when another client looks at them.
local function held()
  local found, ids, seen = call('LRANGE', key('processing'), -@MAX_GHOST_LOOK@, -1), {}, {}
  local leases = #found > 0 and call('EXISTS', key('later')) == 1 and leases_of(found)
  for n, id in ipairs(found) do
    if not seen[id] and not (leases and waits_for_retry(id, leases[n])) then
      ids[#ids + 1], seen[id] = id, true
    end
  end
  return ids
end

if state == 'ready' then
  read_line(key('queue'), mark_of, add)
elseif state == 'active' then
  read_sorted('processing', held(), add)
elseif state == 'unroutable' then
  read_parked(add)
elseif state == 'scheduled' then
  read_set('later', key('later'), false, add)
else
  read_set(state, key(state), true, add)
end
return { next_cursor(), rows }
