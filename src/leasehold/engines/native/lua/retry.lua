-- retry: run a job now that failed, broke, was cancelled, waits for its time, or is parked. Its counts start again.
-- KEYS[1] prefix
-- ARGV session number id
-- Returns: 1, or 0 when there is no such job, or it is ready, active or completed.
-- Invariant: the job is in `jobs` and `ready`, and has no end.
--@include begin types remember wake task find
local session, number, id = ARGV[1], ARGV[2], ARGV[3]
allow_when_full()
local again = recall(session, number)
if again then
  return again
end
check_types()
local state, detail = find(id)
if state == 'failed' or state == 'broken' or state == 'cancelled' then
  local record = call('HGET', key('kept'), id)
  if not record then
    return remember(session, number, '0')
  end
  call('HSET', key('jobs'), id, record)
  call('RPUSH', key('ready'), id)
  call('HDEL', key('ended'), id)
  call('HDEL', key('kept'), id)
  call('ZREM', key(state), id)
elseif state == 'scheduled' or state == 'unroutable' then
  call('RPUSH', key('ready'), id)
  take_out(id, state, detail)
else
  return remember(session, number, '0')
end
call('HDEL', key('tries'), id)
wake_one()
return remember(session, number, '1')
