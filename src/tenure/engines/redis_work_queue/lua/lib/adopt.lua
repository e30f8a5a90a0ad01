-- lib adopt: list an item that was added again, has no lease, and was in no list at two looks with `stray_ms` between
-- them. Its producer died half-way. Race: a producer that lives lists the item within that time. Only the second look
-- searches the lists, for a few items of one call. The others keep their marks.
local searched = 0

local function adopt(id, stray_ms)
  local leases = call('MGET', key('lease:' .. id), key('leased_by_session:' .. id))
  if leases[1] or leases[2] then return end
  local stray, time = key('stray'), clock()
  local mark = tonumber(call('ZSCORE', stray, id) or nil)
  local since = mark and math.floor(mark)
  if not since or since > time or time - since >= stray_ms + @CALLERS_MARK_MS@ then
    call('ZREMRANGEBYSCORE', stray, '-inf', time - stray_ms - @CALLERS_MARK_MS@)
    -- A fraction: it may be in a list, see `unlisted`.
    if call('ZCARD', stray) < @MARKS_MAX@ then call('ZADD', stray, time + 0.5, id) end
    call('PEXPIRE', stray, stray_ms + @CALLERS_MARK_MS@)
  elseif time - since >= stray_ms and searched < @SEARCHES_MAX@ then
    searched = searched + 1
    if not call('LPOS', key('queue'), id) and not call('LPOS', key('processing'), id) then
      call('LPUSH', key('queue'), id)
    end
    call('ZREM', stray, id)
  end
end
