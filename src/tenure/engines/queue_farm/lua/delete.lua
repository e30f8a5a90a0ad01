-- delete: remove a job that waits in this lane, as the original's `del`; but one that is active stays whole.
-- KEYS[1] prefix
-- ARGV session number config id lane
-- Returns: 1, or 0 when it does not wait there
-- Invariant: what an active job holds is not touched.
--@include begin answers back transition
local session, number, id, lane = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local waiting = lengths_of(lane)
if not waiting or call('LREM', queue_key(lane), 1, id) == 0 then return remember(session, number, '0') end
local time = clock()
end_on_wire(config, time, id, lane, 'delete')
if not batch_of(lane) then
  place(config, time, lane)
  bound_index(time)
end
return remember(session, number, '1')
