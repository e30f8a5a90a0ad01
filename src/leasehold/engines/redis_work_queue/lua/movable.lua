-- movable: the items that wait at the right end of a queue, those that leave it first.
-- KEYS[1] prefix
-- ARGV limit bytes id_most
-- Returns: {how many ids were looked at, {id, data, sha1 of the data}..., {id that no job can have elsewhere...}}
-- Invariant: what can be moved stays where it is. An id without an item is dropped, one that somebody holds stays in
-- `processing` alone. One whose id no job can have elsewhere (empty, longer than `id_most`, with an @ at its beginning)
-- goes to the left end of `queue`, out of the way of the others. Not more than `bytes` of data, but one item at least.
-- Sending it again is harmless by nature.
--@include begin types leases claims
local limit, bytes, id_most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
allow_when_full()
check_types()
local ids, looked, rows, unfit, held = call('LRANGE', key('queue'), -limit, -1), 0, {}, {}, {}
for n = #ids, 1, -1 do
  local id = ids[n]
  local data = call('MGET', key('item:' .. id))[1]
  if not data then
    call('LREM', key('queue'), -1, id)
  elseif is_held(id, lease_of(id), claim_of(call('HGET', key('leased'), id)), data) then
    call('LREM', key('queue'), -1, id)
    held[#held + 1] = id
  elseif id == '' or #id > id_most or string.sub(id, 1, 1) == '@' then
    call('LREM', key('queue'), -1, id)
    call('LPUSH', key('queue'), id)
    unfit[#unfit + 1] = id
  elseif #rows > 0 and #data > bytes then
    break
  else
    bytes = bytes - #data
    rows[#rows + 1] = { id, data, redis.sha1hex(data) }
  end
  looked = looked + 1
end
leave_to_holders(held)
return { looked, rows, unfit }
