-- cancel: end a job that waits in `cancelled`.
-- KEYS[1] prefix
-- ARGV session number config id body
-- Returns: 1; 0 when no such job waits; 2 when it is active: it cannot be asked to end.
-- Invariant: a job that runs is left alone.
--@include begin answers back transition
local session, number, id, body = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local job = not kept_of(id) and job_of(id)
local lane, where = nil, nil
if job then lane, where = find_job(id, job) end
if not where then return remember(session, number, '0') end
if where == 'active' then return remember(session, number, '2') end
local time = clock()
call('LREM', queue_key(lane), -1, id)
end_badly(config, time, 'cancelled', id, job, lane, math.max(0, job.deliveries - job.crashes), body)
if not batch_of(lane) then place(config, time, lane) end
return remember(session, number, '1')
