-- lib tend: what is due, whoever comes by: scheduled jobs whose time has come, and the jobs of workers that died.
--@include hold

-- The error of the last that was due and could not be put into line. A claim that finds nothing else answers it.
local not_promoted = nil

-- One that has a shape takes several times as long as one that does not. One whose list is another program's is put off: it
-- must not keep the others from their lists.
local function promote(time, limit)
  local due = call('ZRANGEBYSCORE', key('scheduled'), '-inf', time, 'LIMIT', 0, limit)
  if #due == 0 then
    return 0
  end
  local promoted, plain, shaped, work, bytes = {}, {}, {}, 0, 0
  for _, entry in ipairs(due) do
    if work >= limit or bytes >= @READ_BYTES@ then
      break
    end
    local id, has_shape = due_id(entry)
    local shape = ''
    if has_shape then
      local record = call('HGET', key('jobs'), id) or ''
      shape, bytes = shape_of(record), bytes + #record
    end
    local trouble = shape ~= '' and shapes.trouble_of(shape)
    if trouble then
      not_promoted, work = trouble, work + 1
      shapes.put_off(id)
    elseif shape == '' or not shapes.word(shape, 'l') and not shapes.word(shape, 'p') then
      plain[#plain + 1], work = id, work + 1
      promoted[#promoted + 1] = entry
    else
      shaped[#shaped + 1], work = { id, shape }, work + @BACK_HARD@
      promoted[#promoted + 1] = entry
    end
  end
  for _, one in ipairs(shaped) do
    shapes.place_again(one[1], one[2])
  end
  if #plain > 0 then
    call('RPUSH', key('ready'), unpack(plain))
    wake_one()
  end
  if #promoted > 0 then
    call('ZREM', key('scheduled'), unpack(promoted))
  end
  return #promoted
end

-- Do what is due and answer: promoted, reclaimed, milliseconds until something more is due (-1: nothing known), and whether
-- only a part of what the dead held is back.
local function tend(config, time, limit, beating)
  local amnesty, before = come_by(config, time, beating)
  if newer_layout then
    return 0, 0, -1
  end
  local held_ms = rare and hold_left('', time) or 0
  local promoted = held_ms > 0 and 0 or promote(time, limit)
  local reclaimed, again, rest = reap(config, time, amnesty, before, limit)
  local due = held_ms > 0 and time + held_ms or call('ZRANGE', key('scheduled'), 0, 0, 'WITHSCORES')[2]
  return promoted, reclaimed, until_next(time, again, due), rest
end
