-- sample: some jobs that have not ended, for an operator who asks why they wait.
-- KEYS[1] prefix
-- ARGV cursor count: where to continue, '0' to begin; about how many
-- Returns: {cursor, id...}; the cursor is '0' at the end.
-- Invariant: changes nothing.
--@include begin
local found = call('HSCAN', key('jobs'), ARGV[1], 'COUNT', ARGV[2])
local answer = { found[1] }
for i = 1, #found[2], 2 do answer[#answer + 1] = found[2][i] end
return answer
