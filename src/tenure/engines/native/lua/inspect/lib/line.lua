-- lib line: all lists of waiting jobs: for calls that empty a queue, and for pages of it.
-- Defines: following, lines, pop_lane, pop_waiting, some_following, some_lanes. Redis: reads and writes.
--@include large shape tombstones levels

-- The lists of waiting jobs except lanes, in the order in which they are served; '' stands for the lanes.
local function lines()
  local found = { 'isolated' }
  for _, level in ipairs(waiting_levels(true)) do
    found[#found + 1] = level == 0 and 'ready' or 'ready:' .. level
    found[#found + 1] = level == 0 and '' or nil
  end
  return found
end

-- The jobs that wait for another job with their key to end. They have no order by which a page could find them, so only
-- the first FOLLOW_LOOK are shown.
local function following()
  local found, cursor = {}, '0'
  repeat
    local page = call('HSCAN', key('again'), cursor, 'COUNT', @PAGE_MAX@)
    for i = 2, #page[2], 2 do found[#found + 1] = page[2][i] end
    cursor = page[1]
  until cursor == '0' or #found >= @FOLLOW_LOOK@
  return found
end

-- About `count` of these jobs, to be removed, from the cursor `from` on ('' for the first). Returns also the next
-- cursor; 0 at the end.
local function some_following(from, count)
  local page = call('HSCAN', key('again'), from == '' and '0' or from, 'COUNT', count)
  local ids = {}
  for i = 2, #page[2], 2 do
    if call('HEXISTS', key('jobs'), page[2][i]) == 1 then
      ids[#ids + 1] = page[2][i]
    else
      call('HDEL', key('again'), page[2][i - 1])
    end
  end
  local few = some_of(ids)
  return few, #few < #ids and from or page[1]
end

-- How many of the first `limit` entries of a list one call may take out.
local function fitting(list, limit)
  if not has_large() then return limit end
  local ids = {}
  for n, entry in ipairs(call('LRANGE', key(list), 0, limit - 1)) do
    ids[n] = lanes.entry_of(entry)
  end
  return math.max(1, readable(ids, @READ_BYTES@))
end

-- Take up to `limit` entries out of a lane. Returns the ids and the number of entries.
local function pop_lane(lane, limit)
  local ids, looked = {}, 0
  lanes.change({ lane }, false, function(waiting)
    local entries = call('LPOP', key('lane:' .. lane), fitting('lane:' .. lane, limit)) or {}
    looked = #entries
    waiting[1] = waiting[1] - looked
    for _, entry in ipairs(entries) do
      local id = lanes.entry_of(entry)
      if not is_tombstone('lane:' .. lane, id) then ids[#ids + 1] = id end
    end
    call('HINCRBY', key('meta'), 'laned', 0 - looked)
  end)
  return ids, looked
end

-- Up to `count` lanes in which jobs wait: lanes that have a turn, else lanes on hold, at a gate, parked and busy lanes,
-- page by page, from where the last call stopped: `<hash> <cursor>`. Returns the lanes and where to continue; '' at the
-- end.
local function some_lanes(from, count)
  local found = turns.in_turn(count)
  for _, lane in ipairs(#found == 0 and call('ZRANGE', key('holds'), 0, @PAGE_MAX@ - 1) or {}) do
    if call('EXISTS', key('lane:' .. lane)) == 1 then found[#found + 1] = lane end
  end
  if #found > 0 then return found, from end
  local place, cursor = string.match(from, '^(%a+) (%d+)$')
  local hashes = { 'gated', 'parked', 'lanes' }
  while place and hashes[1] ~= place do table.remove(hashes, 1) end
  for _, hash in ipairs(hashes) do
    local page = call('HSCAN', key(hash), hash == place and cursor or '0', 'COUNT', @PAGE_MAX@)
    for i = 1, #page[2], 2 do
      if call('EXISTS', key('lane:' .. page[2][i])) == 1 then found[#found + 1] = page[2][i] end
    end
    if #found > 0 then
      return found, from
    elseif page[1] ~= '0' then
      return found, hash .. ' ' .. page[1]
    end
  end
  return found, ''
end

-- Take up to `limit` entries out of some lanes. Returns the ids, the number of entries, and where to continue; '' at
-- the end. `taken`: how many entries this call has taken before. A type error would lose their jobs, so it is left to
-- the next call.
local function pop_lanes(limit, from, taken)
  local found, on = some_lanes(from, limit)
  local ids, looked, check = {}, 0, taken > 0 and redis.pcall or call
  for _, lane in ipairs(found) do
    if type(check('LLEN', key('lane:' .. lane))) ~= 'number' then return {}, 0, on == '' and 'gated 0' or on end
  end
  for _, lane in ipairs(found) do
    if looked >= limit or looked > 0 and has_large() then break end
    local few, entries = pop_lane(lane, limit - looked)
    looked = looked + entries
    for _, id in ipairs(few) do ids[#ids + 1] = id end
  end
  return ids, looked, on
end

-- Take up to `limit` entries out of a list that is not a lane's. Returns the ids and the number of entries.
local function pop_line(line, limit)
  local entries, ids = call('LPOP', key(line), fitting(line, limit)) or {}, {}
  local level = string.match(line, '^ready:(.*)$')
  if level and call('EXISTS', key(line)) == 0 then call('ZREM', key('priorities'), level) end
  for _, id in ipairs(entries) do
    if line == 'isolated' or not is_tombstone(line, id) then ids[#ids + 1] = id end
  end
  return ids, #entries
end

-- Take up to `limit` entries out of the lists of waiting jobs, from where the last call stopped ('' for the first
-- call). Returns the ids, whether there may be more, and where to continue.
local function pop_waiting(limit, from)
  local ids, left, on = {}, limit, from
  for _, line in ipairs(lines()) do
    call('LLEN', key(line ~= '' and line or 'ready')) -- a type error ends the call while it has taken nothing
  end
  for _, line in ipairs(lines()) do
    repeat
      local few, looked
      if line ~= '' then
        few, looked = pop_line(line, left)
      else
        few, looked, on = pop_lanes(left, on, limit - left)
      end
      for _, id in ipairs(few) do ids[#ids + 1] = id end
      left = left - looked
      if left <= 0 or looked > 0 and has_large() or looked == 0 and line == '' and on ~= '' then
        return ids, true, on
      end
    until looked == 0
  end
  call('DEL', key('wake'))
  drop_tombstones()
  return ids, false, ''
end
