-- lib fresh: new items.

-- Forget what is left of earlier items of these ids, which another client has completed.
local function forget_earlier(ids)
  if call('EXISTS', key('attempts'), key('passing'), key('later'), key('stray'), key('unleased')) == 0 then
    return
  end
  call('HDEL', key('attempts'), unpack(ids))
  call('HDEL', key('passing'), unpack(ids))
  call('ZREM', key('stray'), unpack(ids))
  call('ZREM', key('unleased'), unpack(ids))
  for _, id in ipairs(call('EXISTS', key('later')) == 1 and ids or {}) do
    if call('ZSCORE', key('later'), id) then
      leave_processing(id)
      forget_retry(id)
    end
  end
end
