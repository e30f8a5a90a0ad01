-- lib admit: what is to be known before a job is added.
-- Defines: due_time, has_ended, most_jobs, refusal. Redis: reads.
--@include forget

-- How many jobs the queue may have; 0: any number. An error for what another program has written.
local function most_jobs()
  local most = tonumber(call('HGET', key('settings'), 'max_length') or 0)
  return most and most >= 0 and most or error(
    'WRONGTYPE max_length in ' .. key('settings') .. ' must be a number from 0 on')
end

-- The error of a queue that would become longer than it may. room: how many jobs must fit, together with the following
-- calls; 0 when an earlier call has made sure. `adds(job, taken)` answers whether a job, {id...}, would be added;
-- `taken` is what those before it take. It is asked when there is not room for all.
local function refusal(room, jobs, adds)
  local most = most_jobs()
  local have = most > 0 and room > 0 and call('HLEN', key('jobs')) or 0
  if have + room <= most or most == 0 or room == 0 then return nil end
  local taken = {}
  for _, job in ipairs(jobs) do
    if taken['id ' .. job[1]] or not adds(job, taken) then
      room = room - 1
    else
      taken['id ' .. job[1]] = true
    end
  end
  if room > 0 and have + room > most then
    return redis.error_reply('TNFULL ' .. have .. ' ' .. most .. ' ' .. room)
  end
end

-- When a job is due: empty for now, +n for n ms from now, n for a time since 1970.
local function due_time(due, time)
  if due == '' then return 0 end
  return string.sub(due, 1, 1) == '+' and time + tonumber(due) or tonumber(due)
end

-- Is there a record of an earlier job with this id? One past its time is forgotten here.
local function has_ended(id, time)
  local ended = call('HGET', key('ended'), id)
  if not ended then return false end
  local state, expires = string.match(ended, '^(%S+) %d+ (%d+)')
  if not state or tonumber(expires) > time then return true end
  forget(state, { id }, true)
  return false
end
