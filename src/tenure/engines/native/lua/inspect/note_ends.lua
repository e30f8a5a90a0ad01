-- note_ends: add the ends of jobs that one worker counted to the present minute of the queue, by Redis' clock.
-- KEYS[1] prefix
-- ARGV session number completed failed retried cancelled {cell count}...
-- Returns: 1
-- Invariant: a quarter of an hour begins with its number; what a quarter of the day before left in its place is zeroed
-- first.
--@include begin answers
local session, number = ARGV[1], ARGV[2]
allow_when_full()
local again = recall(session, number)
if again then return again end
local name, minute = key('minutes'), math.floor(clock() / @MINUTE@)
local quarter = math.floor(minute / @QUARTER_MINUTES@)
local first = quarter % @QUARTERS@ * @QUARTER_CELLS@
if call('BITFIELD', name, 'GET', 'u24', '#' .. first)[1] ~= quarter then
  call('SETRANGE', name, first * @CELL_BYTES@, string.rep('\0', @QUARTER_CELLS@ * @CELL_BYTES@))
  call('BITFIELD', name, 'SET', 'u24', '#' .. first, quarter)
end
local function add(cell, count)
  if count ~= '0' then call('BITFIELD', name, 'OVERFLOW', 'SAT', 'INCRBY', 'u24', '#' .. first + cell, count) end
end
for i = 0, @MINUTE_COUNTS@ - 1 do
  add(1 + minute % @QUARTER_MINUTES@ * @MINUTE_COUNTS@ + i, ARGV[3 + i])
end
for i = 3 + @MINUTE_COUNTS@, #ARGV, 2 do add(ARGV[i], ARGV[i + 1]) end
call('PEXPIRE', name, @DAY@)
return remember(session, number, '1')
