-- lib remove: take an item that no client holds out of its place.

-- The state of the item that other clients see: ready, scheduled, active; nil for none.
local function live_place(id)
  local data = call('MGET', key('item:' .. id))[1]
  return data and place_in_line(id, data)
end

-- The state of the item aside with this id (unroutable, failed, broken, cancelled) and how it ended; else the state of
-- the item that other clients see. If there are both, they are two items.
local function place_of(id)
  local ended = call('HGET', key('ended'), id)
  if ended then return string.match(ended, '^(%S*)'), ended end
  return live_place(id)
end

-- The task of a parked item.
local function task_of(ended)
  return string.match(ended or '', '^%S+ %d+ %d+ %d+ %d+ %d+ %d+ ([^\n]*)') or ''
end

-- Take an item out of its list; the caller removes its data (`item:<id>`, or `kept` and `ended`). `popped`: the caller
-- has taken it out.
local function unlist(id, place, ended)
  if place == 'popped' then
    return
  elseif place == 'ready' then
    call('LREM', key('queue'), 0, id)
    call('ZREM', key('later'), id)
  elseif place == 'scheduled' then
    if not leave_processing({ id })[id] then call('LREM', key('queue'), 0, id) end
    call('ZREM', key('later'), id)
    end_lease(id)
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

-- Erase the item aside if `ended` is given, else the other one.
local function erase(id, ended)
  if ended then
    call('HDEL', key('kept'), id)
    call('HDEL', key('ended'), id)
  else
    call('DEL', key('item:' .. id))
    call('HDEL', key('attempts'), id)
    call('HDEL', key('passing'), id)
    forget_retry(id)
  end
end

-- End a waiting item in cancelled. False: another item of its id is aside and still to run, so this one stays.
local function cancel(config, time, id, place, ended, body)
  local data, failures, crashes
  if ended then
    data = call('HGET', key('kept'), id)
    failures, crashes = string.match(ended, '^%S+ %d+ %d+ (%d+) (%d+)')
  elseif is_awaited(id) then
    return false
  else
    data = call('GET', key('item:' .. id))
    failures, crashes = counted(call('HGET', key('attempts'), id))
  end
  unlist(id, place, ended)
  local aside = ended and true
  end_badly(config, time, 'cancelled', id, data or '', failures or 0, crashes or 0, '0', '-', '0', body, aside)
  return true
end
