-- lib ghosts: entries of the lists of waiting jobs whose job was cancelled or discarded while it waited. A ghost is called by
-- its list and its id: the same id may wait in another list by then. In `ready` it has just its id.
local function ghost_in(list, id)
  return list == 'ready' and id or '@' .. list .. '/' .. id
end

local haunted = nil
-- True once for every ghost of this id: the entry at hand is to be skipped.
local function is_ghost(id)
  if haunted == nil then
    haunted = call('EXISTS', key('ghosts')) == 1
  end
  if not haunted then
    return false
  end
  local left = call('HGET', key('ghosts'), id)
  if not left then
    return false
  end
  if tonumber(left) <= 1 then
    call('HDEL', key('ghosts'), id)
  else
    call('HINCRBY', key('ghosts'), id, -1)
  end
  call('HINCRBY', key('meta'), 'ghosts', -1)
  return true
end

-- Nothing waits, so no ghost does. A count that stayed (somebody else has emptied a list) would swallow a job of the same
-- id one day.
local function lay_ghosts()
  if call('EXISTS', key('ghosts')) == 1 and (tonumber(call('HGET', key('meta'), 'laned') or 0)) <= 0 then
    call('DEL', key('ghosts'))
    call('HDEL', key('meta'), 'ghosts')
  end
end
