-- schedule_put: add a schedule, or replace its definition.
-- KEYS[1] prefix
-- ARGV session number name definition expected planned fire map
-- definition: `<digest> <source, or ->` newline JSON. expected: the digest of the definition that it replaces; empty: there is
-- none. planned, fire: the next tick, and when it is due; 0: none. map: the version of the map of the queue's partitions that the caller
-- knows; it has checked whether its jobs can be there.
-- Returns: 1, or 0 when the queue has another definition of this name, or has none.
-- Invariant: a schedule is in `due` exactly while it has a next tick and is not paused. Its counters stay.
--@include begin remember schedules noted
local session, number, name, definition = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
--@include once
local outdated_map = outdated(tonumber(ARGV[8]))
if outdated_map then return outdated_map end
schedules.check_types()
local digest, source = string.match(definition, '^(%S+) ([^\n]+)\n')
local announced = key('announced:' .. source)
call('ZCARD', announced)
local old, old_source = schedules.owner_of(name)
if (old or '') ~= ARGV[5] or old and old_source ~= source then return remember(session, number, '0') end
local state = schedules.state_of(name)
state.planned, state.fire = ARGV[6], ARGV[7]
call('HSET', key('schedules'), name, definition)
schedules.write(name, state)
if source ~= '-' then call('ZADD', announced, (clock()), name .. ' ' .. digest) end
return remember(session, number, '1')
