-- limits: names of limits for which numbers are stored, then names for which jobs wait, then names with places that
-- jobs hold, then names that rest.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV place cursor limit
-- place: limits, waiting, used or resting. A limit may be in several of them.
-- Returns: {the next place, '' at the end, the next cursor, {name...}}
-- Invariant: changes nothing.
--@include begin
local place, names = ARGV[1], {}
if place == 'resting' then
  local first, count = tonumber(ARGV[2]), tonumber(ARGV[3])
  names = call('ZRANGEBYSCORE', key('resting'), '(' .. clock(), '+inf', 'LIMIT', first, count)
  return { #names < count and '' or place, digits(first + count), names }
end
local page = call('HSCAN', key(place), ARGV[2], 'COUNT', ARGV[3])
for i = 1, #page[2], 2 do
  if place == 'limits' or call('HEXISTS', key('limits'), page[2][i]) == 0 then names[#names + 1] = page[2][i] end
end
local following = { limits = 'waiting', waiting = 'used', used = 'resting' }
if page[1] == '0' then place = following[place] end
return { place, page[1], names }
