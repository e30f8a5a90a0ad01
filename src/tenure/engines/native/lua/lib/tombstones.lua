-- lib tombstones: entries of lists of waiting jobs that stay when the job is cancelled, discarded or rescheduled. A
-- tombstone is counted under the name of its list and its id, since the same id may wait in another list by then.
-- Defines: drop_tombstones, has_tombstones, is_tombstone, tombstone_name. Redis: reads and writes.
local function tombstone_name(list, id)
  return list == 'ready' and id or '@' .. list .. '/' .. id
end

local there = nil
-- Whether there are tombstones. `known`: what the caller has found out.
local function has_tombstones(known)
  if known ~= nil then there = known end
  if there == nil then there = call('EXISTS', key('ghosts')) == 1 end
  return there
end

-- Whether to skip the entry at hand of a list: true once for every tombstone of this id there.
local function is_tombstone(list, id)
  if not has_tombstones() then return false end
  local name = tombstone_name(list, id)
  local left = call('HGET', key('ghosts'), name)
  if not left then
    return false
  elseif tonumber(left) <= 1 then
    call('HDEL', key('ghosts'), name)
  else
    call('HINCRBY', key('ghosts'), name, -1)
  end
  call('HINCRBY', key('meta'), 'ghosts', -1)
  return true
end

-- Forget all tombstones when no job waits. A count that stayed, since another program emptied a list, would one day
-- hide a job of the same id.
local function drop_tombstones()
  if has_tombstones() and tonumber(call('HGET', key('meta'), 'laned') or 0) <= 0 then
    call('DEL', key('ghosts'))
    call('HDEL', key('meta'), 'ghosts')
  end
end
