-- lib admit: what is to be known before a job is added.
-- Needs: ARGV. Defines: due_time, has_ended, most_jobs, refusal. Redis: reads.
--@include forget

-- How many jobs the queue may have; 0: any number. An error for what another program has written.
local function most_jobs()
  local most = tonumber(call('HGET', key('settings'), 'max_length') or 0)
  return most and most >= 0 and most or error('WRONGTYPE max_length in ' .. key('settings') .. ' must be a number from 0 on')
end

-- The error of a queue that would become longer than it may. room: how many jobs must fit, those of the following calls
-- included; 0 when an earlier call has made sure. each: how many arguments a job has. `adds(id, at, taken)` answers whether
-- the job whose arguments begin at `at` would be added; `taken` is what those before it take. It is asked when there is not
-- room for all.
local function refusal(room, each, adds)
  local most = most_jobs()
  local have = most > 0 and room > 0 and call('HLEN', key('jobs')) or 0
  if have + room <= most or most == 0 or room == 0 then return nil end
  local taken = {}
  for i = 4, #ARGV, each do
    if taken['id ' .. ARGV[i]] or not adds(ARGV[i], i, taken) then
      room = room - 1
    else
      taken['id ' .. ARGV[i]] = true
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
