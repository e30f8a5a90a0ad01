-- lib ends: how a job ends. The end is written before the job is taken from where it was, so that an error between the two
-- leaves it in both places rather than in none.
--@include forget laneends unique notes history

-- Failures, crashes, and doubtful crashes, which another job beside it may have caused, from the text in `tries`.
local function counted(text)
  if not text then return 0, 0, 0 end
  local failures, crashes, known = string.match(text, '^(%d+) (%d+) ?(%d*)')
  crashes = tonumber(crashes) or 0
  return tonumber(failures) or 0, crashes, crashes - (tonumber(known) or 0)
end

local watching = nil
-- Publish the end of a job to the callers that wait for it.
local function publish_end(id, state)
  if watching == nil then watching = call('EXISTS', key('watched')) == 1 end
  if watching and call('HDEL', key('watched'), id) == 1 then
    call('PUBLISH', key('ended:' .. id), state)
  end
end

-- Keep at most `max` records of a state. Records that expire first go first; those of jobs that block a lane do not count.
local function trim(state, max)
  if call('ZCARD', key(state)) > max then
    local over = math.min(call('ZCOUNT', key(state), '-inf', '(@NEVER_MS@') - max, 1000)
    if over > 0 then
      forget(state, call('ZRANGEBYSCORE', key(state), '-inf', '(@NEVER_MS@', 'LIMIT', 0, over), true)
    end
  end
end

-- The first line of an end. The second is the record's own first line (completed jobs only), the rest is the body.
-- `times`: when the job ended, and when its record expires.
local function end_line(state, times, failures, crashes, token, worker, claimed)
  local tries = failures + crashes == 0 and ' 0 0 ' or ' ' .. failures .. ' ' .. crashes .. ' '
  return state .. ' ' .. times .. tries .. token .. ' ' .. worker .. ' ' .. claimed
end

-- End in failed, broken or cancelled: the whole record is kept, with the reason.
local function end_badly(config, time, state, id, failures, crashes, token, worker, claimed, body)
  local record = call('HGET', key('jobs'), id)
  local shape = shape_of(record)
  local blocks = shape ~= '' and lane_ends.end_badly(time, state, id, shape)
  local expires = blocks and @NEVER_MS@ or time + config.failed_ttl
  if record then call('HSET', key('kept'), id, record) end
  local line = end_line(state, time .. ' ' .. digits(expires), failures, crashes, token, worker, claimed)
  if failures > 0 then body = with_earlier(body, call('HGET', key('tries'), id)) end
  call('HSET', key('ended'), id, line .. '\n\n' .. body)
  call('ZADD', key(state), expires, id)
  call('HDEL', key('jobs'), id)
  call('HDEL', key('tries'), id)
  call('HINCRBY', key('meta'), state, 1)
  -- A job that blocks its lane keeps its key: if a job behind it took the key, it could not be retried.
  if shape ~= '' and not blocks then uniques.free_key(shape, id, state == 'cancelled') end
  clear_notes({ id })
  publish_end(id, state)
  trim(state, config.failed_max)
end

-- Remove jobs that wait, with all their records. Their places are the caller's.
local function remove(ids)
  if #ids == 0 then return end
  local records = call('HMGET', key('jobs'), unpack(ids))
  call('HDEL', key('jobs'), unpack(ids))
  call('HDEL', key('tries'), unpack(ids))
  for n, id in ipairs(ids) do
    local shape = shape_of(records[n])
    if shape ~= '' then
      lane_ends.leave(shape, id)
      uniques.free_key(shape, id, true)
    end
    publish_end(id, 'discarded')
  end
end

-- Detach ended jobs that a caller removes: they no longer block their lanes, have no keys, and parked no lane.
local function detach(ids)
  for _, id in ipairs(ids) do
    local line = string.match(call('HGET', key('ended'), id) or '', '^[^\n]*\n([^\n]*)')
    local shape = shape_of(call('HGET', key('kept'), id) or line)
    lane_ends.unblock(id)
    lane_ends.leave(shape, id)
    uniques.free_key(shape, id, true)
    local lane = shapes.word(shape, 'l')
    local since, by = string.match(lane and call('HGET', key('parked'), lane) or '', '^(%d+ )(.*)$')
    if by == id then call('HSET', key('parked'), lane, since) end
  end
end
