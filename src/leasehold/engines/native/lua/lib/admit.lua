-- lib admit: what is to be known before a job is added.

-- The error of a queue that would become longer than it may. room: how many jobs must fit, those of the following calls
-- included; 0 when an earlier call has made sure.
local function refusal(room)
  local most = tonumber(call('HGET', key('settings'), 'max_length') or 0)
  if most > 0 and room > 0 and call('HLEN', key('jobs')) + room > most then
    return redis.error_reply('LHFULL ' .. call('HLEN', key('jobs')) .. ' of ' .. most .. ' jobs are in the queue')
  end
end

-- When a job is due: empty for now, +n for n ms from now, n for a time since 1970.
local function due_time(due, time)
  if due == '' then
    return 0
  end
  return string.sub(due, 1, 1) == '+' and time + tonumber(due) or tonumber(due)
end

-- Is there a record of an earlier job with this id? One past its time is forgotten here.
local function has_ended(id, time)
  local ended = call('HGET', key('ended'), id)
  if not ended then
    return false
  end
  local state, expires = string.match(ended, '^(%S+) %d+ (%d+)')
  if not state or tonumber(expires) > time then
    return true
  end
  forget(state, { id }, true)
  return false
end

-- Of these jobs that wait for their time, one may be the next: then somebody idle must learn when to look again.
local function wake_for_next(later)
  if later[call('ZRANGE', key('scheduled'), 0, 0)[1]] then
    wake_one()
  end
end
