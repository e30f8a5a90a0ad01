-- cancel: end a job that waits; ask the worker of one that is active.
-- KEYS[1] prefix
-- ARGV session number config id body signal queue
-- Returns: 1 ended, 2 asked, or 0 when there is no such job, or it has ended.
-- Invariant: the job is in `cancelled`, its record kept, or is active and in `cancelling`: then it does not wait again.
--@include begin types answers find ends cancelone transition
local session, number, id, body = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local config, signal, queue = cjson.decode(ARGV[3]), ARGV[6], ARGV[7]
local again = transition(session, number)
if again then return again end
return remember(session, number, cancel_one(config, id, body, signal, queue))
