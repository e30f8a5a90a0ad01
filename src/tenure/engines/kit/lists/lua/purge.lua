-- purge: remove jobs of one state that is not `ready` or `active`, or cancel them.
-- KEYS[1] prefix
-- ARGV session number config state body
-- `body`: of the record of a cancelled job; '' removes.
-- Returns: `1 ` when there are more, else `0 `, and how many were taken
-- Invariant: at most MAX_BATCH in one call.
--@include cancels answers transition
local session, number, state, body = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local time, left, count, sets = clock(), @MAX_BATCH@, 0, { key(state) }
note_ends(config, time, state)
if state == 'unroutable' then
  sets = {}
  for _, task in ipairs(call('SMEMBERS', key('unroutable'))) do sets[#sets + 1] = key('unroutable:' .. task) end
end
for _, set in ipairs(sets) do
  for _, id in ipairs(left > 0 and call('ZRANGE', set, 0, left - 1) or {}) do
    local job = records.of(id)
    if not job then
      call('ZREM', set, id)
    elseif body == '' then
      discard(id, job)
    else
      cancel_aside(config, time, id, job, body)
    end
    left, count = left - 1, count + 1
  end
end
return remember(session, number, (left == 0 and '1 ' or '0 ') .. count)
