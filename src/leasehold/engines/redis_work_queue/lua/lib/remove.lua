-- lib remove: take an item that nobody holds out of the place where it waits, or from among those that are aside.

-- The place of an id that nobody holds: ready, scheduled, unroutable, failed, broken, cancelled; 'active'; or nil.
local function place_of(id)
  local ended = call('HGET', key('ended'), id)
  if ended then
    return string.match(ended, '^(%S*)'), ended
  elseif call('EXISTS', key('item:' .. id)) == 0 then
    return nil
  elseif call('ZSCORE', key('later'), id) then
    return 'scheduled'
  elseif lease_of(id) or call('LPOS', key('processing'), id) then
    return 'active'
  end
  return 'ready'
end

-- The task of a parked item.
local function task_of(ended)
  return string.match(ended or '', '^%S+ %d+ %d+ %d+ %d+ %d+ %d+ ([^\n]*)') or ''
end

-- Take it out of its list; what is kept of it (`item:<id>`, or `kept` and `ended`) is left to the caller. `popped`: it is
-- in no list any more.
local function unlist(id, place, ended)
  if place == 'popped' then
    return
  elseif place == 'ready' then
    call('LREM', key('queue'), 0, id)
  elseif place == 'scheduled' then
    call('ZREM', key('later'), id)
    end_lease(id)
    leave_processing(id)
  elseif place == 'unroutable' then
    local task = task_of(ended)
    call('ZREM', key('unroutable:' .. task), id)
    if call('EXISTS', key('unroutable:' .. task)) == 0 then
      call('SREM', key('unroutable'), task)
    end
  else
    call('ZREM', key(place), id)
  end
end

local function erase(id)
  call('DEL', key('item:' .. id))
  call('HDEL', key('attempts'), id)
  call('HDEL', key('kept'), id)
  call('HDEL', key('ended'), id)
end

-- End one that waits in cancelled.
local function cancel(config, time, id, place, ended, body)
  local data = ended and call('HGET', key('kept'), id) or call('GET', key('item:' .. id))
  local failures, crashes = counted(call('HGET', key('attempts'), id))
  unlist(id, place, ended)
  end_badly(config, time, 'cancelled', id, data or '', failures, crashes, '0', '-', '0', body)
end
