-- purge: remove or cancel jobs of one state, or those that wait in one lane.
-- KEYS[1] prefix
-- ARGV session number config state most cancel body lane
-- Returns: `<1 when there is more> <how many>`
-- Invariant: while there is more, nothing is claimed; an active job is left alone.
--@include begin answers back transition
local session, number, state, most = ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
local cancel, body, only = ARGV[6] == '1', ARGV[7], ARGV[8]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local gone, time = 0, clock()

-- Remove what waits in a lane.
local function purge_lane(lane)
  if not lengths_of(lane) then return end
  for _, id in ipairs(call('LRANGE', queue_key(lane), -(most - gone), -1)) do
    local job = job_of(id)
    call('LREM', queue_key(lane), -1, id)
    if job and cancel then
      end_badly(config, time, 'cancelled', id, job, lane, math.max(0, job.deliveries - job.crashes), body)
    else
      call('DEL', job_key(id))
    end
    gone = gone + 1
  end
  if not batch_of(lane) then place(config, time, lane) end
end

if state ~= 'ready' then
  for _, id in ipairs(call('ZRANGE', key(state), 0, most - 1)) do
    forget_ended(state, id)
    gone = gone + 1
  end
elseif only ~= '' then
  purge_lane(only)
else
  for _, lane in ipairs(call('SMEMBERS', wire('active'))) do
    if gone >= most then break end
    purge_lane(lane)
  end
end
local more = gone >= most
if state == 'ready' and more then
  call('HSET', key('meta'), 'hold', time + @HOLD_MS@)
else
  call('HDEL', key('meta'), 'hold')
end
return remember(session, number, (more and '1 ' or '0 ') .. gone)
