-- retry: put an item that waits or is aside at the end of its queue now, perhaps with other data; its counts start
-- again.
-- KEYS[1] prefix
-- ARGV session number id edited data
-- Returns: '1', or '0' when there is no such item, or it is ready or held.
-- Invariant: the item is in `item:<id>` and once in `queue`, and in no other place.
--@include begin types answers leases claims ends remove transition
local session, number, id, edited, data = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local again = transition(session, number)
if again then return again end
local place, ended = place_of(id)
if not place or place == 'ready' or place == 'active' then return remember(session, number, '0') end
if edited ~= '1' then
  data = ended and call('HGET', key('kept'), id) or call('GET', key('item:' .. id))
end
-- An item of this id that a client has added since is another one.
if not data or (ended and call('EXISTS', key('item:' .. id)) == 1) then
  return remember(session, number, '0')
end
unlist(id, place, ended)
erase(id, ended)
call('HDEL', key('attempts'), id)
call('SET', key('item:' .. id), data)
call('LPUSH', key('queue'), id)
return remember(session, number, '1')
