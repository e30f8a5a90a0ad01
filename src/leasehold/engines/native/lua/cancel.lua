-- cancel: end a job that waits.
-- KEYS[1] prefix
-- ARGV session number config id body
-- Returns: 1, or 0 when there is no such job, or it is active or has ended.
-- Invariant: the job is in `cancelled`, its record kept.
--@include begin types remember config task find ends
local session, number, id, body = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local config = configure(ARGV[3])
allow_when_full()
local again = recall(session, number)
if again then
  return again
end
check_types()
local state, detail = find(id)
if state ~= 'ready' and state ~= 'scheduled' and state ~= 'unroutable' then
  return remember(session, number, '0')
end
local failures, crashes = counted(call('HGET', key('tries'), id))
end_badly(config, clock(), 'cancelled', id, failures, crashes, '0', '-', '0', body)
take_out(id, state, detail)
return remember(session, number, '1')
