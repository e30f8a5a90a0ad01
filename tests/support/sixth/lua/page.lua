-- page: some jobs of one state in their order, those that ended newest first.
-- KEYS[1] prefix
-- ARGV state offset limit after
-- Returns: {how many there are, score of the last one shown or '', row...}
-- Invariant: changes nothing. `after` is a score: places are unique, so a walk shows no job twice.
--@include begin jobs
local state, offset, limit, after = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local entries
if ENDS[state] then
  local from = after == '' and '+inf' or '(' .. after
  entries = call('ZREVRANGEBYSCORE', key(state), from, '-inf', 'WITHSCORES', 'LIMIT', offset, limit)
else
  local from = after == '' and '-inf' or '(' .. after
  entries = call('ZRANGEBYSCORE', key(state), from, '+inf', 'WITHSCORES', 'LIMIT', offset, limit)
end
local reply = { call('ZCARD', key(state)), #entries == 2 * tonumber(limit) and entries[#entries] or '' }
for i = 1, #entries, 2 do
  reply[#reply + 1] = row_of(entries[i], job_of(entries[i]))
end
return reply
