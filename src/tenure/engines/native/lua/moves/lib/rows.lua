-- lib rows: a job as it moves from server to server: {kind, id, record, text, place, rank, lasts, followers}.
-- kind: w waits in its line, i in `isolated`, s for its time (place: when it is due), f for another job with its key, e
-- has ended (place: `<state> <expires>`, text: its end, record '' of a completed job; else text: its tries). rank: in
-- the lane that it occupies, lasts: until when it has its unique key, as `unique` has it; both '' for none. followers:
-- the jobs that follow it, as `then` has them.
-- Defines: rows. Redis: reads and writes.
--@include wake due unique large laneends page deadlines
local rows = {}
local MOVING = '@migrate'

function rows.of(kind, id, record, text, place, shape)
  local row = { kind, id, record, text, place, '', '', uses_features and call('HGET', key('then'), id) or '' }
  if shape == '' then return row end
  row[6] = select(2, lanes.occupied_by(id)) or ''
  local _, unique = uniques.key_of(shape)
  row[7] = unique and uniques.lasts(unique, id) or ''
  return row
end

-- Start no job of a lane until `rows.open`, unless the lane is parked anyway.
function rows.close(lane, time)
  if call('HEXISTS', key('parked'), lane) == 1 then return end
  lanes.change({ lane }, false, function() call('HSET', key('parked'), lane, time .. ' ' .. MOVING) end)
end

-- Open a lane that was closed; or leave it parked, as it was at the other server (`parked`, else '').
function rows.open(lane, parked)
  local by = string.match(call('HGET', key('parked'), lane) or '', '^%d+ (.*)$')
  if by and by ~= MOVING then return end
  lanes.change({ lane }, false, function()
    if parked ~= '' then
      call('HSET', key('parked'), lane, parked)
    else
      call('HDEL', key('parked'), lane)
    end
  end)
end

-- Put a job that waits into its line, at the front with `first`.
local function line_up(id, shape, first)
  local lane, priority = shapes.lane_of(shape), shapes.word(shape, 'p')
  if lane then
    lanes.change({ lane }, false, function(waiting)
      local list = key('lane:' .. lane)
      if not is_internal(lane) and call('EXISTS', list) == 0 and lanes.busy_of(lane) == 0 then
        lane_limits.set(lane, tonumber(shapes.word(shape, 'n') or 1))
      end
      waiting[1] = call(first and 'LPUSH' or 'RPUSH', list, id)
      call('HINCRBY', key('meta'), 'laned', 1)
      -- The job now in front may have other limits than the one that waited at a gate.
      if first and has_limits() then gates.leave(lane) end
    end)
  else
    call(first and 'LPUSH' or 'RPUSH', key(shapes.list_of(shape)), id)
    if priority then call('ZADD', key('priorities'), priority, priority) end
  end
  wake_one()
end

-- Take the job's place in its lane: it occupies the lane, and may block it.
local function take_rank(row, shape)
  local lane = shapes.word(shape, 'l')
  if not lane then return end
  lanes.change({ lane }, false, function(_, busy)
    lanes.occupy({ lane }, { row[2], row[6] .. ' ' .. lane })
    busy[1] = lanes.busy_of(lane)
  end)
  if row[1] ~= 'e' then return end
  local ids = lane_ends.blockers(lane)
  ids[#ids + 1] = row[2]
  call('HSET', key('blocked'), lane, cmsgpack.pack(ids))
end

-- Add a job. A key that another job has stays with that one.
function rows.arrive(row, first, time)
  local kind, id, record, text, place, rank, lasts = unpack(row, 1, 7)
  if row[8] ~= '' then call('HSET', key('then'), id, row[8]) end
  local shape = shape_of(record)
  if record ~= '' then call('HSET', key(kind == 'e' and 'kept' or 'jobs'), id, record) end
  if kind == 'e' then
    local state, expires = string.match(place, '^(%S+) (%S+)$')
    call('HSET', key('ended'), id, text)
    call('ZADD', key(state), expires, id)
  elseif text ~= '' then
    call('HSET', key('tries'), id, text)
  end
  note_size(math.max(#record, #text))
  note_limits(shape)
  if kind ~= 'e' then deadlines.note_again(id, shape) end
  local _, unique = uniques.key_of(shape)
  local rival = unique and uniques.rival(unique, time)
  if kind == 'f' then lasts = '0' end -- unless the job that it waits for is here, its key is free
  if lasts ~= '' and not rival then uniques.own_key(unique, id, lasts) end
  if rank ~= '' and kind ~= 'w' then take_rank(row, shape) end
  if kind == 's' then
    call('ZADD', key('scheduled'), place, due_entry(id, record))
    wake_one()
  elseif kind == 'f' and rival and rival ~= id and call('HSETNX', key('again'), unique, id) == 1 then
    return
  elseif kind == 'i' then
    call(first and 'LPUSH' or 'RPUSH', key('isolated'), id)
    wake_one()
  elseif kind ~= 'e' then
    line_up(id, shape, first)
  end
end
