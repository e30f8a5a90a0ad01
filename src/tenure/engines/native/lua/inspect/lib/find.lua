-- lib find: find one job, and take it out of its place.
-- Defines: find, find_owner, place_of, take_out. Redis: reads and writes.
--@include clock task due unique tombstones

-- Find a job. Returns its state, then: scheduled: when it is due, and its record; active: worker, record, and the text
-- of the claim; ended: the text of the end. Looks at the holders, which are limited in number, and searches no list.
local function find(id)
  local ended = call('HGET', key('ended'), id)
  if ended then
    local state, expires = string.match(ended, '^(%S+) %d+ (%d+)')
    local is_known = state == 'completed' or state == 'failed' or state == 'broken' or state == 'cancelled'
    if not is_known or tonumber(expires) <= clock() then return nil end
    return state, ended
  end
  local record = call('HGET', key('jobs'), id)
  if not record then return nil end
  local due = call('ZSCORE', key('scheduled'), due_entry(id, record))
  if due then return 'scheduled', due, record end
  for _, worker in ipairs(call('ZRANGE', key('holders'), 0, @MAX_HOLDERS@ - 1)) do
    local claim = call('HGET', key('held:' .. worker), id)
    if claim then return 'active', worker, record, claim end
  end
  local shape = shape_of(record)
  local unique = shape ~= '' and select(2, uniques.key_of(shape))
  if unique and call('HGET', key('again'), unique) == id then return 'scheduled', '', record end
  local task = task_of(record)
  if call('ZSCORE', key('unroutable:' .. task), id) then return 'unroutable', task, record end
  return 'ready', nil, record
end

-- Find the job that has a unique key. Returns nothing when it has ended, or when another job has its id by now: the
-- time of a key may outlive the record of its job.
local function find_owner(unique, owner)
  local state, detail, record = find(owner)
  local _, owned = uniques.key_of(shape_of(record))
  if owned == unique then return state, detail, record end
end

-- Where a job waits: the name of its tombstone if it is ready, its task if it is unroutable, its entry in `scheduled`.
-- A call asks before it changes anything of the job.
local function place_of(id, state, detail, record)
  if state == 'scheduled' then
    return due_entry(id, record)
  elseif state ~= 'ready' then
    return state == 'unroutable' and detail or nil
  end
  local shape = shape_of(record)
  return shape == '' and id or tombstone_name(shapes.list_of(shape), id)
end

-- Take a waiting job out of its place. The only list that is searched is `isolated`, which is short. An entry that
-- stays behind is a tombstone: a claim skips it even when the same id has been enqueued again.
local function take_out(id, state, found)
  if state == 'ready' and call('LREM', key('isolated'), 1, id) == 0 then
    call('HINCRBY', key('ghosts'), found, 1)
    call('HINCRBY', key('meta'), 'ghosts', 1)
    -- The next job of its lane may have other limits.
    local lane = has_limits() and string.match(found, '^@lane:([^@/]+)/')
    if lane and lanes.entry_of(call('LINDEX', key('lane:' .. lane), 0) or '') == id then
      lanes.change({ lane }, true, function() gates.leave(lane) end)
    end
  elseif state == 'scheduled' then
    call('ZREM', key('scheduled'), found)
  elseif state == 'unroutable' then
    call('ZREM', key('unroutable:' .. found), id)
    if call('EXISTS', key('unroutable:' .. found)) == 0 then
      call('SREM', key('unroutable'), found)
    end
  end
end
