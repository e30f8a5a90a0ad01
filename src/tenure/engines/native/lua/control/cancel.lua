-- cancel: end jobs that wait; ask the workers of active ones.
-- KEYS[1] prefix
-- ARGV session number config body signal queue id...
-- Returns: for each job 1 ended, 2 asked, or 0 when there is no such job, or it has ended.
-- Invariant: each job is in `cancelled`, its record kept, or is active and in `cancelling`: then it does not wait
-- again.
--@include begin types answers find ends cancelone transition
local session, number, body, signal, queue = ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6]
local config, answers = cjson.decode(ARGV[3]), {}
local again = transition(session, number)
if again then return again end
for i = 7, #ARGV do answers[#answers + 1] = cancel_one(config, ARGV[i], body, signal, queue) end
return remember(session, number, table.concat(answers))
