-- lib forget: forget the records of ended jobs. `trimmed`: count them as cut off by the limits.
-- Defines: forget. Redis: writes.
--@include lazy
local function forget(state, ids, trimmed)
  if #ids == 0 then return end
  call('HDEL', key('ended'), unpack(ids))
  if state ~= 'completed' then
    call('HDEL', key('kept'), unpack(ids))
    if uses_features then call('HDEL', key('then'), unpack(ids)) end
  end
  call('ZREM', key(state), unpack(ids))
  if trimmed then call('HINCRBY', key('meta'), 'trimmed_' .. state, #ids) end
end
