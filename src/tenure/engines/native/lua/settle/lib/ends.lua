-- lib ends: how a job ends. The end is written before the job is taken from where it was, so that an error between the
-- two leaves it in both places rather than in none.
-- Needs: digits. Defines: end_badly, remove, remove_ended. Redis: reads and writes.
--@include counted endline trim laneends unique notes history watched deadlines sending

-- Report the bad end of a job to its group, and enqueue what is to follow: before anything else is written, since it
-- may fail.
local function report_end(id, shape, state)
  if shape == '' then return end
  sending.send({ sending.word_of(id, shape, state) })
  local word = state ~= 'cancelled' and shapes.word(shape, 'o')
  if word then sending.report(word, id) end
end

-- End in failed, broken or cancelled: the whole record is kept, with the reason.
local function end_badly(config, time, state, id, failures, crashes, token, worker, claimed, body)
  local record = call('HGET', key('jobs'), id)
  local shape = shape_of(record)
  if shape ~= '' then report_end(id, shape, body == deadlines.BODY and 'expired' or state) end
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
  deadlines.forget(id, shape)
  notes.clear({ id })
  watched.publish_end(id, state)
  trim(state, config.failed_max)
end

-- Remove jobs that wait, with all their records. Their places are the caller's.
local function remove(ids)
  if #ids == 0 then return end
  local records = call('HMGET', key('jobs'), unpack(ids))
  for n, id in ipairs(ids) do report_end(id, shape_of(records[n]), 'discarded') end
  call('HDEL', key('jobs'), unpack(ids))
  call('HDEL', key('tries'), unpack(ids))
  if uses_features then call('HDEL', key('then'), unpack(ids)) end
  for n, id in ipairs(ids) do
    local shape = shape_of(records[n])
    if shape ~= '' then
      lane_ends.leave(shape, id)
      uniques.free_key(shape, id, true)
      deadlines.forget(id, shape)
    end
    watched.publish_end(id, 'discarded')
  end
end

-- Remove ended jobs, with all their records: they no longer block their lanes, have no keys, and parked no lane.
local function remove_ended(state, ids)
  for _, id in ipairs(uses_features and ids or {}) do
    local line = string.match(call('HGET', key('ended'), id) or '', '^[^\n]*\n([^\n]*)')
    local shape = shape_of(call('HGET', key('kept'), id) or line)
    lane_ends.unblock(id)
    lane_ends.leave(shape, id)
    uniques.free_key(shape, id, true)
    local lane = shapes.word(shape, 'l')
    local since, by = string.match(lane and call('HGET', key('parked'), lane) or '', '^(%d+ )(.*)$')
    if by == id then call('HSET', key('parked'), lane, since) end
  end
  forget(state, ids, false)
end
