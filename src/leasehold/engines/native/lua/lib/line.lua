-- lib line: all jobs that wait in line, wherever: for those who empty a queue, and who look at it.
--@include large

-- The lists of waiting jobs but for those of lanes, in the order in which they are served; '' is where lanes come in.
local function lines()
  local found, common = { 'isolated' }, false
  for _, level in ipairs(call('ZREVRANGE', key('priorities'), 0, -1)) do
    if tonumber(level) < 0 and not common then
      found[#found + 1], found[#found + 2], common = 'ready', '', true
    end
    found[#found + 1] = 'ready:' .. level
  end
  if not common then
    found[#found + 1], found[#found + 2] = 'ready', ''
  end
  return found
end

local function append(ids, more)
  for _, id in ipairs(more) do
    ids[#ids + 1] = id
  end
end

-- The jobs that wait for another with their key to end. They have no order by which they could be found, so that only the first
-- FOLLOW_LOOK can be looked at.
local function following()
  local found, cursor = {}, '0'
  repeat
    local page = call('HSCAN', key('again'), cursor, 'COUNT', @PAGE_MAX@)
    for i = 2, #page[2], 2 do
      found[#found + 1] = page[2][i]
    end
    cursor = page[1]
  until cursor == '0' or #found >= @FOLLOW_LOOK@
  return found
end

-- About `count` of these to be removed, from the cursor `from` on, '' for the first. Answers also where to go on; 0: there are
-- no more.
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

-- How many of the first `limit` entries of a list may be taken out by one call.
local function fitting(list, limit)
  if not has_large() then
    return limit
  end
  local ids = {}
  for n, entry in ipairs(call('LRANGE', key(list), 0, limit - 1)) do
    ids[n] = shapes.entry_of(entry)
  end
  return math.max(1, readable(ids, @READ_BYTES@))
end

-- Take up to `limit` entries out of one lane. Answers ids and how many entries they were.
local function pop_lane(lane, limit)
  local ids, looked = {}, 0
  shapes.with_lane(lane, false, function()
    local entries = call('LPOP', key('lane:' .. lane), fitting('lane:' .. lane, limit)) or {}
    looked = #entries
    for _, entry in ipairs(entries) do
      local id = shapes.entry_of(entry)
      if not is_ghost(ghost_in('lane:' .. lane, id)) then
        ids[#ids + 1] = id
      end
    end
    call('HINCRBY', key('meta'), 'laned', 0 - looked)
  end)
  return ids, looked
end

-- Up to `count` lanes in which something waits: whose turn it is, or that are parked or busy. These are looked through from
-- where the caller's last call stopped, `parked <cursor>` or `lanes <cursor>`, a bounded number at a time. Answers the lanes,
-- and where to go on; '' at the end.
local function some_lanes(from, count)
  local found = call('LRANGE', key('turns'), 0, count - 1)
  if #found > 0 then
    return found, from
  end
  local place, cursor = string.match(from, '^(%a+) (%d+)$')
  for _, hash in ipairs(place == 'lanes' and { 'lanes' } or { 'parked', 'lanes' }) do
    local page = call('HSCAN', key(hash), hash == place and cursor or '0', 'COUNT', @PAGE_MAX@)
    for i = 1, #page[2], 2 do
      if call('EXISTS', key('lane:' .. page[2][i])) == 1 then
        found[#found + 1] = page[2][i]
      end
    end
    if #found > 0 then
      return found, from
    elseif page[1] ~= '0' then
      return found, hash .. ' ' .. page[1]
    end
  end
  return found, ''
end

-- Take up to `limit` entries out of some lanes. Answers ids, how many entries were looked at, and where to go on; '' at the end.
local function pop_lanes(limit, from)
  local lanes, on = some_lanes(from, limit)
  local ids, looked = {}, 0
  for _, lane in ipairs(lanes) do
    if looked >= limit or looked > 0 and has_large() then
      break
    end
    local few, entries = pop_lane(lane, limit - looked)
    looked = looked + entries
    append(ids, few)
  end
  return ids, looked, on
end

-- Take up to `limit` entries out of one list of waiting jobs that is not a lane's. Answers ids and how many entries they were.
local function pop_line(line, limit)
  local entries, ids = call('LPOP', key(line), fitting(line, limit)) or {}, {}
  local level = string.match(line, '^ready:(.*)$')
  if level and call('EXISTS', key(line)) == 0 then
    call('ZREM', key('priorities'), level)
  end
  for _, id in ipairs(entries) do
    if line == 'isolated' or not is_ghost(ghost_in(line, id)) then
      ids[#ids + 1] = id
    end
  end
  return ids, #entries
end

-- Take up to `limit` entries out of the lists of waiting jobs. `from`: where the last call stopped, '' for none. Answers ids,
-- whether there may be more, and where to go on.
local function pop_waiting(limit, from)
  local ids, left, on = {}, limit, from
  for _, line in ipairs(lines()) do
    repeat
      local few, looked
      if line ~= '' then
        few, looked = pop_line(line, left)
      else
        few, looked, on = pop_lanes(left, on)
      end
      append(ids, few)
      left = left - looked
      if left <= 0 or looked > 0 and has_large() or looked == 0 and line == '' and on ~= '' then
        return ids, true, on
      end
    until looked == 0
  end
  call('DEL', key('wake'))
  lay_ghosts()
  return ids, false, ''
end
