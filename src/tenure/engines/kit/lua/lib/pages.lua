-- lib pages: pages of jobs, read one after the other while jobs come and go. A cursor is the last entry of a page:
-- {place, number, mark, entry}. The next page begins behind that entry; where it has gone, behind the place that it
-- had. The order of places is fixed, and the order of the entries in a place does not change while they stay. `number`:
-- in a sorted set the score, in a list how many entries are behind. `mark`: see passed_in_list.
local limit, left, skip = 0, 0, 0
local cursor, last, more = {}, {}, false

-- ARGV from `first` on: offset limit place number mark entry; `place` '' for the first page.
local function open_page(first)
  skip, limit = tonumber(ARGV[first]), tonumber(ARGV[first + 1])
  left = limit
  cursor = { place = ARGV[first + 2], number = ARGV[first + 3], mark = ARGV[first + 4], entry = ARGV[first + 5] }
end

-- The cursor behind this page, empty at the end of the walk.
local function next_cursor() return more and last or {} end

-- Read on in a place that has `size` entries, the first `passed` of which were on earlier pages. `read(from, count)`
-- shows entries and answers the cursor of the last one.
local function read_place(size, passed, read)
  local from = passed + skip
  local count = math.min(left, size - from)
  skip = math.max(0, from - size)
  if count > 0 then
    last = read(from, count)
    left = left - count
  end
  more = more or from + math.max(0, count) < size
end

-- Texts in the order of Redis, byte by byte. (That of Lua depends on the language that the server was started in.)
local function is_greater(a, b)
  for n = 1, math.min(#a, #b) do
    local x, y = string.byte(a, n), string.byte(b, n)
    if x ~= y then return x > y end
  end
  return #a > #b
end

-- How many entries of a sorted set come before the cursor, which may have gone. Of those with its score, found by
-- halving.
local function count_before(set)
  local score = tonumber(cursor.number) and cursor.number or '0'
  local low, high = call('ZCOUNT', set, '-inf', '(' .. score), call('ZCOUNT', set, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_greater(cursor.entry, call('ZRANGE', set, middle, middle)[1]) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- Read on in a sorted set, by its scores or `backwards`. `show(entry, score)`.
local function read_set(place, set, backwards, show)
  local size, passed = call('ZCARD', set), 0
  if cursor.place == place then
    passed = count_before(set)
    if backwards then
      passed = size - passed
    elseif call('ZRANGE', set, passed, passed)[1] == cursor.entry then
      passed = passed + 1
    end
  end
  read_place(size, passed, function(from, count)
    local found = call(backwards and 'ZREVRANGE' or 'ZRANGE', set, from, from + count - 1, 'WITHSCORES')
    for n = 1, #found, 2 do show(found[n], found[n + 1]) end
    return { place, found[#found], '', found[#found - 1] }
  end)
end

-- Read on in entries without an order of their own: in that of their texts. `show(entry)`.
local function read_sorted(place, entries, show)
  table.sort(entries)
  local passed = 0
  while cursor.place == place and passed < #entries and entries[passed + 1] <= cursor.entry do
    passed = passed + 1
  end
  read_place(#entries, passed, function(from, count)
    for n = from + 1, from + count do show(entries[n]) end
    return { place, '', '', entries[from + count] }
  end)
end

-- Read on in the sorted sets of parked jobs, one a task.
local function read_parked(show)
  local tasks = call('SMEMBERS', key('unroutable'))
  table.sort(tasks)
  for _, task in ipairs(tasks) do
    if task >= cursor.place then read_set(task, key('unroutable:' .. task), false, show) end
  end
end

-- How many entries of a list were on earlier pages, the cursor's included. Entries are taken from one end: the left one
-- with `rank` 1, the right one with -1. When the cursor's entry was taken, all before it were taken, too: the answer is
-- 0. An entry that came back at the other end counts as taken: fewer than `number` entries are behind it, or
-- `mark_of(entry)` has changed.
local function passed_in_list(list, rank, mark_of)
  local size = call('LLEN', list)
  local most = size - (tonumber(cursor.number) or 0)
  local found = most > 0 and call('LPOS', list, cursor.entry, 'RANK', rank, 'COUNT', 0, 'MAXLEN', most) or {}
  -- An id may be there twice.
  local at = found[#found]
  local mark = at and mark_of(cursor.entry)
  if not at or mark ~= '' and mark ~= cursor.mark then return 0 end
  return rank > 0 and at + 1 or size - at
end

-- Read on in a list that is served on its right. `show(entry)`.
local function read_line(list, mark_of, show)
  local size = call('LLEN', list)
  local passed = cursor.place ~= '' and passed_in_list(list, -1, mark_of) or 0
  read_place(size, passed, function(from, count)
    local found = call('LRANGE', list, -from - count, -from - 1)
    for n = #found, 1, -1 do show(found[n]) end
    return { 'list', digits(size - from - count), mark_of(found[1]), found[1] }
  end)
end
