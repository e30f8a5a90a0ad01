-- page: a page of items in one state.
-- KEYS[1] prefix
-- ARGV state offset limit
-- Returns: {id, state, data, attempts, due ms, value of the lease, our record of it, end, '' or the worker that
-- a job of the queue is reserved for}...
-- Invariant: changes nothing. Looks through a bounded part of `processing` for what is held.
--@include begin company leases claims view
local state, offset, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ids = {}

local function from_the_right(list)
  local found = call('LRANGE', key(list), -offset - limit, -offset - 1)
  for n = #found, 1, -1 do
    ids[#ids + 1] = found[n]
  end
end

local function held()
  local found, passed = call('LRANGE', key('processing'), -@MAX_GHOST_LOOK@, -1), 0
  local leases = #found > 0 and call('EXISTS', key('later')) == 1 and leases_of(found)
  for n = #found, 1, -1 do
    if not (leases and waits_for_retry(found[n], leases[n])) then
      passed = passed + 1
      if passed > offset and #ids < limit then
        ids[#ids + 1] = found[n]
      end
    end
  end
end

local function parked()
  local skip = offset
  local tasks = call('SMEMBERS', key('unroutable'))
  table.sort(tasks)
  for _, task in ipairs(tasks) do
    local found = call('ZRANGE', key('unroutable:' .. task), skip, skip + limit - #ids - 1)
    for _, id in ipairs(#ids < limit and found or {}) do
      ids[#ids + 1] = id
    end
    skip = math.max(0, skip - call('ZCARD', key('unroutable:' .. task)))
  end
end

if state == 'ready' then
  from_the_right('queue')
elseif state == 'active' then
  held()
elseif state == 'unroutable' then
  parked()
elseif state == 'scheduled' then
  ids = call('ZRANGE', key('later'), offset, offset + limit - 1)
else
  ids = call('ZREVRANGE', key(state), offset, offset + limit - 1)
end
local rows = {}
local live = state == 'ready' or state == 'active' or state == 'scheduled'
for _, id in ipairs(ids) do
  local row = view_of(id, live and state or nil)
  if row then
    table.insert(row, 1, id)
    rows[#rows + 1] = row
  end
end
return rows
