-- purge: remove all jobs of a state.
-- KEYS[1] prefix
-- ARGV session number state
-- Returns: `0 ` and how many were removed: there are no more
-- Invariant: no job of another state is touched.
--@include begin answers jobs
local session, number, state = ARGV[1], ARGV[2], ARGV[3]
allow_when_full()
local again = recall(session, number)
if again then return again end
check_types()
local ids = call('ZRANGE', key(state), 0, -1)
for _, id in ipairs(ids) do
  forget(id, { state = state })
end
return remember(session, number, '0 ' .. #ids)
