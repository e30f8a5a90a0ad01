-- finish: complete an item of which only the id and the data are known, not the lease.
-- KEYS[1] prefix
-- ARGV session number id data
-- Returns: '1', or '0' when there is no such item, or it is another one by now.
-- Invariant: of any number of calls for one item, one answers '1'.
--@include begin types remember gone
local session, number, id, data = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
--@include transition
if call('MGET', key('item:' .. id))[1] ~= data then return remember(session, number, '0') end
if not leave_processing({ id })[id] then call('LREM', key('queue'), -1, id) end
remove_item(id)
call('HINCRBY', key('meta'), 'completed', 1)
return remember(session, number, '1')
