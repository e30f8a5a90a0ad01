-- leave: release the jobs that a worker holds on a queue, to the front and in order; no attempt is counted. `crashed`
-- 1: the worker is dead, so its earliest claims count as crashed.
-- KEYS[1] prefix
-- ARGV session number config worker crashed
-- Returns: how many jobs were released, as text; `+` behind it: the worker holds more, so call again.
-- Invariant: the jobs that the worker still holds are kept by its lease; without any it is no longer in `holders`.
--@include begin types answers back transition
local session, number, worker, crashed = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local entries, time = {}, clock()
collect(entries, worker, crashed == '1')
local count, rest = release_claims(config, time, { worker }, entries)
return remember(session, number, count .. (rest and '+' or ''))
