-- lib forget: when the record of an end is kept no longer.

-- Forget the records of these ended jobs; `trimmed` counts those that were cut off by the limits.
local function forget(state, ids, trimmed)
  if #ids == 0 then
    return
  end
  call('HDEL', key('ended'), unpack(ids))
  if state ~= 'completed' then
    call('HDEL', key('kept'), unpack(ids))
  end
  call('ZREM', key(state), unpack(ids))
  if trimmed then
    call('HINCRBY', key('meta'), 'trimmed_' .. state, #ids)
  end
end
