-- enqueue: add items to a queue; an id that exists already is left alone.
-- KEYS[1] prefix
-- ARGV session number stray_ms (id data)...
-- Returns: a string of one character an item: 1 added, 0 existed.
-- Invariant: an item that was added is in `item:<id>` and once in `queue`. One that existed and has been in no list for
-- a time (its producer died half-way) is put into `queue`.
--@include begin answers
local session, number, stray_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local again = recall(session, number)
if again then return again end
--@include types leases claims fresh adopt
local noted = has_notes()
if noted then
  check_types()
else
  call('LLEN', key('queue'))
end

local answers, added = {}, {}
for i = 4, #ARGV, 2 do
  local id = ARGV[i]
  if noted and call('HEXISTS', key('kept'), id) == 1 then
    answers[#answers + 1] = 0
  elseif call('SETNX', key('item:' .. id), ARGV[i + 1]) == 1 then
    answers[#answers + 1] = 1
    added[#added + 1] = id
  else
    answers[#answers + 1] = 0
    adopt(id, stray_ms)
  end
end
if #added > 0 then
  if noted then forget_earlier(added) end
  call('LPUSH', key('queue'), unpack(added))
end
return remember(session, number, table.concat(answers))
