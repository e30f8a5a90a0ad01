-- lib fresh: new items.

-- Whether anything is left of any earlier items.
local function has_notes()
  local keys = { key('kept'), key('attempts'), key('passing'), key('later'), key('stray'), key('unleased') }
  return call('EXISTS', unpack(keys)) > 0
end

-- Forget what is left of earlier items of these ids, which another client has completed.
local function forget_earlier(ids)
  call('HDEL', key('attempts'), unpack(ids))
  call('HDEL', key('passing'), unpack(ids))
  call('ZREM', key('stray'), unpack(ids))
  call('ZREM', key('unleased'), unpack(ids))
  local off = {}
  for _, id in ipairs(call('EXISTS', key('later')) == 1 and ids or {}) do
    if call('ZSCORE', key('later'), id) then off[#off + 1] = id end
  end
  leave_processing(off)
  for _, id in ipairs(off) do
    forget_retry(id)
  end
end
