-- cancel: end a job that waits; ask the worker of one that is active.
-- KEYS[1] prefix
-- ARGV session number config id body signal queue
-- Returns: 1 ended, 2 asked, or 0 when there is no such job, or it has ended.
-- Invariant: the job is in `cancelled`, its record kept, or is active and in `cancelling`: then it does not wait again.
--@include begin types remember find ends
local session, number, id, body = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local config, signal, queue = cjson.decode(ARGV[3]), ARGV[6], ARGV[7]
--@include transition
local state, detail, record = find(id)
if state == 'active' then
  call('HSET', key('cancelling'), id, body)
  -- The message is a hint: the worker's next heartbeat brings the same.
  call('PUBLISH', signal .. detail, queue)
  return remember(session, number, '2')
elseif state ~= 'ready' and state ~= 'scheduled' and state ~= 'unroutable' then
  return remember(session, number, '0')
end
local found = place_of(id, state, detail, record)
local failures, crashes = counted(call('HGET', key('tries'), id))
end_badly(config, clock(), 'cancelled', id, failures, crashes, '0', '-', '0', body)
take_out(id, state, found)
return remember(session, number, '1')
