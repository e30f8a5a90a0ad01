-- lib find: where a job is. Answers its state, then what belongs to it: scheduled: when it is due; active: worker and
-- the text of the claim; ended: the text of the end. The holders are few (their number is limited), jobs are not searched.
local function find(id)
  local ended = call('HGET', key('ended'), id)
  if ended then
    local state, expires = string.match(ended, '^(%S+) %d+ (%d+)')
    local known = state == 'completed' or state == 'failed' or state == 'broken' or state == 'cancelled'
    if not known or tonumber(expires) <= clock() then
      return nil
    end
    return state, ended
  end
  local record = call('HGET', key('jobs'), id)
  if not record then
    return nil
  end
  local due = call('ZSCORE', key('scheduled'), id)
  if due then
    return 'scheduled', due, record
  end
  for _, worker in ipairs(call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)) do
    local claim = call('HGET', key('held:' .. worker), id)
    if claim then
      return 'active', worker, record, claim
    end
  end
  local task = task_of(record)
  if call('ZSCORE', key('unroutable:' .. task), id) then
    return 'unroutable', task, record
  end
  return 'ready', nil, record
end

-- Take a job out of `ready`. The list is not searched: the entry that stays behind is a ghost, counted so that a claim
-- skips it even when the same id has been enqueued again.
local function leave_ghost(id)
  call('HINCRBY', key('ghosts'), id, 1)
  call('HINCRBY', key('meta'), 'ghosts', 1)
end

-- Take a waiting job out of where `find` found it.
local function take_out(id, state, detail)
  if state == 'ready' then
    leave_ghost(id)
  elseif state == 'scheduled' then
    call('ZREM', key('scheduled'), id)
  elseif state == 'unroutable' then
    call('ZREM', key('unroutable:' .. detail), id)
    if call('EXISTS', key('unroutable:' .. detail)) == 0 then
      call('SREM', key('unroutable'), detail)
    end
  end
end
