-- lib view: an item as the inspector sees it.

local function text_of(value)
  return value or ''
end

-- The state of an id that has an item. One in no list waits for a deep clean; it is shown with those that wait.
local function state_of(id, lease, waiting)
  if waiting then
    return 'scheduled'
  elseif (lease and not is_waiting(lease)) or call('LPOS', key('processing'), id, 'RANK', -1, 'MAXLEN', 10000) then
    return 'active'
  end
  return 'ready'
end

-- `state`: of the item that other clients see. Without it the one that is aside comes first.
local function view_of(id, state)
  local ended = not state and call('HGET', key('ended'), id)
  if ended then
    return { string.match(ended, '^(%S*)'), text_of(call('HGET', key('kept'), id)), '', '', '', '', ended }
  end
  local data, lease = call('MGET', key('item:' .. id))[1], lease_of(id)
  if not data then
    return nil
  end
  local waiting = waits_for_retry(id, data)
  return {
    state or state_of(id, lease, waiting),
    data,
    text_of(tries_of(id, data)),
    text_of(waiting and call('ZSCORE', key('later'), id)),
    text_of(lease),
    text_of(call('HGET', key('leased'), id)),
    '',
  }
end
