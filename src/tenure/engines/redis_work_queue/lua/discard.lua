-- discard: remove an item that is not held, with all its records.
-- KEYS[1] prefix
-- ARGV session number id
-- Returns: '1', or '0' when there is no such item, or it is held.
-- Invariant: nothing of the item is left. If the item is aside, `item:<id>` stays: it is another item by now.
--@include begin types answers leases claims ends remove transition
local session, number, id = ARGV[1], ARGV[2], ARGV[3]
local again = transition(session, number)
if again then return again end
local place, ended = place_of(id)
if not place or place == 'active' then return remember(session, number, '0') end
unlist(id, place, ended)
erase(id, ended)
return remember(session, number, '1')
