-- follow: add a job when this job completes, or now if it has completed.
-- KEYS[1] prefix
-- ARGV session number id (queue id record due rule)
-- Returns: the state of the job that it follows, and `~` if jobs are on their way; empty: there is no such job; + it
-- has as many follow-up jobs as it may have.
-- Invariant: a follow-up job of a job that has not ended is in `then`, as lib followers has it.
--@include begin types answers find transition followers
local session, number, id, job = ARGV[1], ARGV[2], ARGV[3], { unpack(ARGV, 4, 8) }
local again = transition(session, number)
if again then return again end
followers.check()
local state, _, record = find(id)
if state == 'completed' then
  sending.send({ job })
  return remember(session, number, state .. '~')
elseif record and not followers.add(id, job) then
  return remember(session, number, '+')
end
return remember(session, number, state or '')
