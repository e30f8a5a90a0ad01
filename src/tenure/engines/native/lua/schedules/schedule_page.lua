-- schedule_page: some schedules of a queue, in no order.
-- KEYS[1] prefix
-- ARGV cursor count
-- Returns: {now, next cursor, {name, definition, state}...}; the cursor is 0 at the end.
-- Invariant: changes nothing. A schedule that is there from the first page to the last is on one of them.
--@include begin
local cursor, count = ARGV[1], ARGV[2]
local page, found = call('HSCAN', key('ticks'), cursor, 'COUNT', count), {}
for i = 1, #page[2], 2 do
  local definition = call('HGET', key('schedules'), page[2][i])
  if definition then found[#found + 1] = { page[2][i], definition, page[2][i + 1] } end
end
return { clock(), page[1], found }
