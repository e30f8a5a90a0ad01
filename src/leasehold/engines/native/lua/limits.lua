-- limits: names of limits for which numbers are stored, then of those for which jobs wait.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV place cursor limit
-- place: limits or waiting.
-- Returns: {the next place, '' at the end, the next cursor, {name...}}
-- Invariant: changes nothing.
--@include begin
local place, names = ARGV[1], {}
local page = call('HSCAN', key(place), ARGV[2], 'COUNT', ARGV[3])
for i = 1, #page[2], 2 do
  if place == 'limits' or call('HEXISTS', key('limits'), page[2][i]) == 0 then names[#names + 1] = page[2][i] end
end
if page[1] == '0' then place = place == 'limits' and 'waiting' or '' end
return { place, page[1], names }
