-- enqueue: add items to a queue; an id that exists already is left alone.
-- KEYS[1] prefix
-- ARGV session number stray_ms (id data)...
-- Returns: a string of one character an item: 1 added, 0 existed.
-- Invariant: an item that was added is in `item:<id>` and once in `queue`. One that existed and has been in no list for a
-- time (its producer died half-way) is put into `queue`.
--@include begin types remember leases claims fresh
local session, number, stray_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
--@include once
check_types()
local time = clock()
local aside = call('EXISTS', key('kept')) == 1

-- Seen without a lease twice, a time apart: now it is worth looking through the lists, for a few in one call. The others
-- keep their marks.
local searched = 0
local function adopt(id)
  if lease_of(id) then return end
  local mark = tonumber(call('ZSCORE', key('stray'), id) or nil)
  local since = mark and math.floor(mark)
  if not since or since > time or time - since >= stray_ms + @CALLERS_MARK_MS@ then
    call('ZREMRANGEBYSCORE', key('stray'), '-inf', time - stray_ms - @CALLERS_MARK_MS@)
    -- A fraction: it may be in a list, see `unlisted`.
    if call('ZCARD', key('stray')) < @MARKS_MAX@ then call('ZADD', key('stray'), time + 0.5, id) end
  elseif time - since >= stray_ms and searched < @SEARCHES_MAX@ then
    searched = searched + 1
    if not call('LPOS', key('queue'), id) and not call('LPOS', key('processing'), id) then
      call('LPUSH', key('queue'), id)
    end
    call('ZREM', key('stray'), id)
  end
end

local answers, added = {}, {}
for i = 4, #ARGV, 2 do
  local id = ARGV[i]
  if aside and call('HEXISTS', key('kept'), id) == 1 then
    answers[#answers + 1] = 0
  elseif call('SETNX', key('item:' .. id), ARGV[i + 1]) == 1 then
    answers[#answers + 1] = 1
    added[#added + 1] = id
  else
    answers[#answers + 1] = 0
    adopt(id)
  end
end
if #added > 0 then
  forget_earlier(added)
  call('LPUSH', key('queue'), unpack(added))
end
return remember(session, number, table.concat(answers))
