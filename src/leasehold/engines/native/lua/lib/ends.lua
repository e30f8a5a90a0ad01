-- lib ends: how a job ends. Its end is written before the job is taken from where it was, so that an error between
-- the two leaves it in both rather than in none.

-- Failures and crashes so far, from the text kept for a job that has any.
local function counted(text)
  if not text then
    return 0, 0
  end
  local failures, crashes = string.match(text, '^(%d+) (%d+)')
  return tonumber(failures) or 0, tonumber(crashes) or 0
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

-- Forget the records of these ended jobs; `trimmed` counts those that were cut off by the limits.
local function forget(state, ids, trimmed)
  if #ids == 0 then
    return
  end
  call('HDEL', key('ended'), unpack(ids))
  if state ~= 'completed' then
    call('HDEL', key('kept'), unpack(ids))
  end
  call('ZREM', key(state), unpack(ids))
  if trimmed then
    call('HINCRBY', key('meta'), 'trimmed_' .. state, #ids)
  end
end

-- Keep at most `max` records of a state: those that expire first go first.
local function trim(state, max)
  local over = call('ZCARD', key(state)) - max
  if over > 0 then
    forget(state, call('ZRANGE', key(state), 0, math.min(over, 1000) - 1), true)
  end
end

-- The first line of an end; the second is the record's own first line (completed jobs only), the rest is the body.
local function end_line(state, time, expires, failures, crashes, token, worker, claimed)
  return table.concat({ state, time, expires, failures, crashes, token, worker, claimed }, ' ')
end

-- End in failed, broken or cancelled: the whole record is kept, with the reason.
local function end_badly(config, time, state, id, failures, crashes, token, worker, claimed, body)
  local expires = time + config.failed_ttl
  local record = call('HGET', key('jobs'), id)
  if record then
    call('HSET', key('kept'), id, record)
  end
  local line = end_line(state, time, expires, failures, crashes, token, worker, claimed)
  call('HSET', key('ended'), id, line .. '\n\n' .. body)
  call('ZADD', key(state), expires, id)
  call('HDEL', key('jobs'), id)
  call('HDEL', key('tries'), id)
  call('HINCRBY', key('meta'), state, 1)
  publish_end(id, state)
  trim(state, config.failed_max)
end
