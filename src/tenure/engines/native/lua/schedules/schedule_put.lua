-- schedule_put: add a schedule, or replace its definition.
-- KEYS[1] prefix
-- ARGV session number name definition expected planned fire map ttl_ms earlier
-- definition: `<digest> <source, or ->` newline JSON. expected: the digest of the definition that it replaces; empty:
-- no definition. planned, fire: the next tick, and when it is due; 0: none. map: the version of the map of the queue's
-- partitions that the caller knows; it has checked whether its jobs can be there. earlier: names that the schedule had,
-- with spaces between them.
-- Returns: 1, or 0 when the queue has another definition of this name, or has none, or the planned tick has run.
-- Invariant: a schedule is in `due` exactly while it has a next tick and is not paused. Its counters stay. What it was
-- under an earlier name ends in the same step.
--@include begin answers schedules noted
local session, number, name, definition = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local again = recall(session, number)
if again then return again end
local outdated_map = outdated(tonumber(ARGV[8]))
if outdated_map then return outdated_map end
schedules.check_types()
local digest, source = string.match(definition, '^(%S+) ([^\n]+)\n')
local announced = key('announced:' .. source)
call('ZCARD', announced)
local time, ttl = clock(), tonumber(ARGV[9])
local past = time - ttl
local old, old_source = schedules.owner_of(name)
local before, is_kept = schedules.predecessors(ARGV[10], source, past)
local is_free = old and schedules.may_take(source, old_source, past)
  or not old and not is_kept and (source == '-' or not schedules.has_moved(name, past))
local state = schedules.state_of(not old and before[1] and before[1][1] or name)
-- Another worker may have made the tick since the caller read when it is planned.
local has_run = ARGV[6] ~= '0' and tonumber(ARGV[6]) <= tonumber(state.last_planned)
if (old or '') ~= ARGV[5] or not is_free or has_run then return remember(session, number, '0') end
state.planned, state.fire = ARGV[6], ARGV[7]
if old and old_source ~= source then schedules.remove(name, old, old_source) end
for _, one in ipairs(before) do schedules.remove(one[1], one[2], one[3]) end
call('HSET', key('schedules'), name, definition)
schedules.write({ [name] = state })
if source ~= '-' then
  -- The announcement before it may have left nothing, as the source had no schedule.
  call('ZADD', announced, 'NX', time, '@since')
  call('ZADD', announced, time, '@last', time, name .. ' ' .. digest)
  schedules.note_moved(ARGV[10], time, ttl)
end
return remember(session, number, '1')
