-- discard: remove a job that is not active, with all its records.
-- KEYS[1] prefix
-- ARGV session number id
-- Returns: 1, or 0 when there is no such job or it is active.
-- Invariant: nothing of the job is left but a tombstone, where it was ready.
--@include begin types answers find ends transition
local session, number, id = ARGV[1], ARGV[2], ARGV[3]
local again = transition(session, number)
if again then return again end
local state, detail, record = find(id)
if not state or state == 'active' then return remember(session, number, '0') end
if state == 'ready' or state == 'scheduled' or state == 'unroutable' then
  take_out(id, state, place_of(id, state, detail, record))
  remove({ id })
else
  remove_ended(state, { id })
end
return remember(session, number, '1')
