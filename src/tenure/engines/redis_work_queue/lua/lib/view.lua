-- lib view: an item as the inspector sees it.

local function text_of(value) return value or '' end

-- `state`: of the item that other clients see. Without it the one that is aside comes first.
local function view_of(id, state)
  local ended = not state and call('HGET', key('ended'), id)
  if ended then
    return { string.match(ended, '^(%S*)'), text_of(call('HGET', key('kept'), id)), '', '', '', '', ended }
  end
  local data, lease = call('MGET', key('item:' .. id))[1], lease_of(id)
  if not data then return nil end
  state = state or place_in_line(id, data)
  return {
    state,
    data,
    text_of(tries_of(id, data)),
    text_of(state == 'scheduled' and call('ZSCORE', key('later'), id)),
    text_of(lease),
    text_of(call('HGET', key('leased'), id)),
    '',
  }
end
