-- lib ends: how a job ends. Its end is written before the job is taken from where it was, so that an error between
-- the two leaves it in both rather than in none.

-- Failures and crashes so far, from the text kept for a job that has any; and of the crashes those that something else that
-- ran beside it may have caused.
local function counted(text)
  if not text then
    return 0, 0, 0
  end
  local failures, crashes, known = string.match(text, '^(%d+) (%d+) ?(%d*)')
  crashes = tonumber(crashes) or 0
  return tonumber(failures) or 0, crashes, crashes - (tonumber(known) or 0)
end

local watching = nil
-- Tell those who wait for this job, if anybody waits for any job of the queue.
local function publish_end(id, state)
  if watching == nil then
    watching = call('EXISTS', key('watched')) == 1
  end
  if watching and call('HDEL', key('watched'), id) == 1 then
    call('PUBLISH', key('ended:' .. id), state)
  end
end

-- Keep at most `max` records of a state: those that expire first go first. Those that block a lane are not counted.
local function trim(state, max)
  if call('ZCARD', key(state)) > max then
    local over = math.min(call('ZCOUNT', key(state), '-inf', '(@NEVER_MS@') - max, 1000)
    if over > 0 then
      forget(state, call('ZRANGEBYSCORE', key(state), '-inf', '(@NEVER_MS@', 'LIMIT', 0, over), true)
    end
  end
end

-- The first line of an end; the second is the record's own first line (completed jobs only), the rest is the body.
-- `times`: when it ended, and when that is forgotten.
local function end_line(state, times, failures, crashes, token, worker, claimed)
  local tries = failures + crashes == 0 and ' 0 0 ' or ' ' .. failures .. ' ' .. crashes .. ' '
  return state .. ' ' .. times .. tries .. token .. ' ' .. worker .. ' ' .. claimed
end

-- End in failed, broken or cancelled: the whole record is kept, with the reason.
local function end_badly(config, time, state, id, failures, crashes, token, worker, claimed, body)
  local record = call('HGET', key('jobs'), id)
  local shape = shape_of(record)
  local blocks = shape ~= '' and shapes.end_in_lane(time, state, id, shape)
  local expires = blocks and @NEVER_MS@ or time + config.failed_ttl
  if record then
    call('HSET', key('kept'), id, record)
  end
  local line = end_line(state, time .. ' ' .. digits(expires), failures, crashes, token, worker, claimed)
  call('HSET', key('ended'), id, line .. '\n\n' .. body)
  call('ZADD', key(state), expires, id)
  call('HDEL', key('jobs'), id)
  call('HDEL', key('tries'), id)
  call('HINCRBY', key('meta'), state, 1)
  -- One that blocks its lane keeps its key: a job behind it could take the key and would then stand in the way of its retry.
  if shape ~= '' and not blocks then
    uniques.free_key(shape, id, state == 'cancelled')
  end
  clear_notes(id)
  publish_end(id, state)
  trim(state, config.failed_max)
end

-- Ended jobs are removed by hand: they block their lanes no longer, have no key, and a lane is not parked because of them.
local function let_go(ids)
  for _, id in ipairs(ids) do
    local line = string.match(call('HGET', key('ended'), id) or '', '^[^\n]*\n([^\n]*)')
    local shape = shape_of(call('HGET', key('kept'), id) or line)
    shapes.unblock(id)
    shapes.leave_lane(shape, id)
    uniques.free_key(shape, id, true)
    local lane = shapes.word(shape, 'l')
    local since, by = string.match(lane and call('HGET', key('parked'), lane) or '', '^(%d+ )(.*)$')
    if by == id then
      call('HSET', key('parked'), lane, since)
    end
  end
end
