-- lib duework: work that is due, which every claim, heartbeat and maintenance does: scheduled jobs that are due,
-- and jobs of workers that died.
-- Defines: run_due. Redis: reads and writes.
--@include silence due hold

-- Whether a due job waits for `move`: the number of partitions changes, and its lane is in another partition by now.
local homes_here = nil
local function has_left(id, shape)
  local lane = shapes.word(shape, 'l')
  if not lane then return false end
  if not homes_here then
--@part homes
    homes_here = homes
  end
  return homes_here.changes and call('HEXISTS', key('busy'), id) == 0 and not homes_here.has_lane(lane)
    and homes_here.of_lane(lane) ~= homes_here.partition
end

-- Put scheduled jobs that are due into line. A job of a lane or a priority counts as several, since it takes as long.
local function promote(time, limit)
  local due = call('ZRANGEBYSCORE', key('scheduled'), '-inf', time, 'LIMIT', 0, limit)
  if #due == 0 then return 0 end
  local promoted, plain, shaped, later, work, bytes = {}, {}, {}, {}, 0, 0
  for _, entry in ipairs(due) do
    if work >= limit or bytes >= @READ_BYTES@ then break end
    local id, has_shape = due_id(entry)
    local shape = ''
    if has_shape then
      local record = call('HGET', key('jobs'), id) or ''
      shape, bytes = shape_of(record), bytes + #record
    end
    if shape ~= '' and has_left(id, shape) then
      -- They keep their order, and no other due job waits behind them.
      later[#later + 1], later[#later + 2] = time + @LEFT_MS@ + #later / 1000, entry
    elseif shape == '' or shapes.list_of(shape) == 'ready' then
      plain[#plain + 1], work = id, work + 1
    else
      shapes.check(shape)
      shaped[#shaped + 1], work = { id, shape }, work + @BACK_HARD@
    end
    if later[#later] ~= entry then promoted[#promoted + 1] = entry end
  end
  for _, one in ipairs(shaped) do shapes.place_again(one[1], one[2]) end
  if #plain > 0 then
    call('RPUSH', key('ready'), unpack(plain))
    wake_one()
  end
  if #later > 0 then call('ZADD', key('scheduled'), unpack(later)) end
  if #promoted > 0 then call('ZREM', key('scheduled'), unpack(promoted)) end
  return #promoted
end

-- Do the work that is due. Returns how many jobs were promoted and reclaimed, in how many ms more is due (-1: not
-- known), and whether only a part of the jobs of the dead is back.
local function run_due(config, time, limit, beating)
  local amnesty, before = note_activity(config, time, beating)
  if newer_layout then return 0, 0, -1 end
  local has_more = false
  if call('HEXISTS', key('meta'), 'expires') == 1 then
--@part expire
    has_more = expire(config, time, limit) >= limit -- no claim may take a job that has expired
  end
  local held_ms = uses_features and hold_left('', time) or 0
  local promoted = held_ms > 0 and 0 or promote(time, limit)
  local reclaimed, again, rest = reap(config, time, amnesty, before, limit)
  local due = held_ms > 0 and time + held_ms or call('ZRANGE', key('scheduled'), 0, 0, 'WITHSCORES')[2]
  local moment = has_limits() and open_lanes.open_due(time, limit)
  if moment then due = math.min(tonumber(due or moment), tonumber(moment)) end
  return promoted, reclaimed, until_next(time, again, due), rest or has_more
end
