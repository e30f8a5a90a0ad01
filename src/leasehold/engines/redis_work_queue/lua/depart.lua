-- depart: set up to `limit` waiting items aside, to be added to another queue; also those that were set aside so before.
-- KEYS[1] prefix
-- ARGV limit
-- Returns: {{id, data}..., the oldest first}, {id that stays in the queue, since another item of it is aside...}
-- Invariant: an item that departs is in `kept`, `ended` and `moving`, and gone for other clients. Until `arrive` it is
-- answered again with every call, so that nothing is lost when the caller dies. Sending it again is harmless by nature.
--@include begin types leases claims ends
local limit = tonumber(ARGV[1])
allow_when_full()
check_types()
call('ZCARD', key('moving'))
local time = clock()
local stay = {}
for _ = 1, limit - call('ZCARD', key('moving')) do
  local id = call('RPOP', key('queue'))
  if not id then
    break
  end
  local data, lease = call('MGET', key('item:' .. id))[1], lease_of(id)
  if data and is_held(id, lease, claim_of(call('HGET', key('leased'), id)), data) then
    call('LREM', key('processing'), 0, id)
    call('LPUSH', key('processing'), id)
  elseif data and call('HEXISTS', key('kept'), id) == 1 then
    stay[#stay + 1] = id
  elseif data then
    local token = digits(call('HINCRBY', key('meta'), 'moved', 1))
    set_aside('ready', id, data, time .. ' 0 0 0 0 0 -', '')
    call('ZADD', key('moving'), token, id)
  end
end
-- At the end of the queue, so that they are not in the way of the others.
if #stay > 0 then
  call('LPUSH', key('queue'), unpack(stay))
end
local rows = {}
for _, id in ipairs(call('ZRANGE', key('moving'), 0, limit - 1)) do
  local data = call('HGET', key('kept'), id)
  if data then
    rows[#rows + 1] = { id, data }
  else
    call('ZREM', key('moving'), id)
  end
end
return { rows, stay }
