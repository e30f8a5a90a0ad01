-- lib gone: remove an item with an unknown holder: data, lease and notes. The caller takes it from its list.
--@include leases retire claims

local function remove_item(id)
  call('DEL', key('item:' .. id))
  end_lease(id)
  local claim = claim_of(call('HGET', key('leased'), id))
  forget_claim(id, claim)
  if claim then retire(claim.worker) end
  call('HDEL', key('attempts'), id)
  call('HDEL', key('passing'), id)
  call('ZREM', key('later'), id)
  call('ZREM', key('unleased'), id)
  call('ZREM', key('stray'), id)
end
