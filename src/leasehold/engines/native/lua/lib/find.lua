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
  local due = call('ZSCORE', key('scheduled'), due_entry(id, record))
  if due then
    return 'scheduled', due, record
  end
  for _, worker in ipairs(call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)) do
    local claim = call('HGET', key('held:' .. worker), id)
    if claim then
      return 'active', worker, record, claim
    end
  end
  local _, unique = nil, nil
  if shape_of(record) ~= '' then
    _, unique = uniques.key_of(shape_of(record))
  end
  if unique and call('HGET', key('again'), unique) == id then
    return 'scheduled', '', record
  end
  local task = task_of(record)
  if call('ZSCORE', key('unroutable:' .. task), id) then
    return 'unroutable', task, record
  end
  return 'ready', nil, record
end

-- The same of the job that has a unique key; nothing when it has ended, or when its id is another job's by now: a time for
-- which a key is taken may outlive what is known of the job.
local function find_owner(unique, owner)
  local state, detail, record = find(owner)
  local _, owned = uniques.key_of(shape_of(record))
  if owned == unique then
    return state, detail, record
  end
end

-- Where a job waits: in line (then how its entry is called as a ghost), in which set, or as which entry of `scheduled`. To
-- be asked before anything of it is changed.
local function place_of(id, state, detail, record)
  if state == 'scheduled' then
    return due_entry(id, record)
  elseif state ~= 'ready' then
    return state == 'unroutable' and detail or nil
  end
  local shape = shape_of(record)
  if shape == '' then
    return id
  end
  local lane, priority = shapes.word(shape, 'l'), shapes.word(shape, 'p')
  return ghost_in(lane and 'lane:' .. lane or priority and 'ready:' .. priority or 'ready', id)
end

-- Take a waiting job out of its place. Lists are not searched, but for that of the few that crashed too often: the entry
-- that stays behind is a ghost, counted so that a claim skips it even when the same id has been enqueued again.
local function take_out(id, state, found)
  if state == 'ready' and call('LREM', key('isolated'), 1, id) == 0 then
    call('HINCRBY', key('ghosts'), found, 1)
    call('HINCRBY', key('meta'), 'ghosts', 1)
  elseif state == 'scheduled' then
    call('ZREM', key('scheduled'), found)
  elseif state == 'unroutable' then
    call('ZREM', key('unroutable:' .. found), id)
    if call('EXISTS', key('unroutable:' .. found)) == 0 then
      call('SREM', key('unroutable'), found)
    end
  end
end
