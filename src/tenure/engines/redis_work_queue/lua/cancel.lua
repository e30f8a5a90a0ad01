-- cancel: end an item that waits in `cancelled`.
-- KEYS[1] prefix
-- ARGV session number config id body
-- Returns: '1' cancelled, '0' there is no such item or it has ended, '2' it is held.
-- Invariant: the item is aside in `kept` and in `cancelled`, and in no other place.
--@include begin types answers leases claims ends remove transition
local session, number, id, body = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local place, ended = place_of(id)
if place == 'failed' or place == 'broken' or place == 'cancelled' then
  place, ended = live_place(id), nil -- that one has ended; there may be another by now
end
if place == 'active' then
  return remember(session, number, '2')
elseif place ~= 'ready' and place ~= 'scheduled' and place ~= 'unroutable' then
  return remember(session, number, '0')
end
cancel(config, clock(), id, place, ended, body)
return remember(session, number, '1')
