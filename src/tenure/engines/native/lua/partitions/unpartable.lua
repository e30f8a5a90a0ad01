-- unpartable: what of a queue cannot be in one of several partitions, page by page.
-- KEYS[1] prefix
-- ARGV cursor
-- Returns: {cursor of the next page or 0, an id of this page with a lane and a unique key or '', 1 if jobs may have
-- limits, 1 if jobs are on their way to another server}
-- Invariant: changes nothing.
--@include begin shape
local page, found = call('HSCAN', key('unique'), ARGV[1], 'COUNT', @PURGE_MOST@), ''
local function look(id)
  if id and shapes.word(shape_of(call('HGET', key('jobs'), id)), 'l') then found = id end
end
for i = 1, #page[2], 2 do
  look(string.match(page[2][i + 1], '^%d+ (.*)$'))
  look(call('HGET', key('again'), page[2][i]))
end
return { page[1], found, call('HEXISTS', key('meta'), 'limited'), call('EXISTS', key('moving')) }
