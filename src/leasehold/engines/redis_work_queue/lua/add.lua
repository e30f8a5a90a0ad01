-- add: add one item without a nonce, as part of a transaction of the caller. One that is there already is left alone.
-- KEYS[1] prefix
-- ARGV id data
-- Returns: 1 added, 0 there is an item of this id.
-- Invariant: an item that was added is in `item:<id>` and once in `queue`.
--@include begin types leases claims fresh
local id, data = ARGV[1], ARGV[2]
check_types()
if call('HEXISTS', key('kept'), id) == 1 or call('SETNX', key('item:' .. id), data) == 0 then
  return 0
end
forget_earlier({ id })
call('LPUSH', key('queue'), id)
return 1
