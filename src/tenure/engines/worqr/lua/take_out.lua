-- take_out: remove tasks from the right end of the queue, or cancel them.
-- KEYS[1] prefix
-- ARGV session number config limit body
-- `body`: of the records of cancelled jobs; '' removes.
-- Returns: `1 ` when there are more, else `0 `, and how many were taken
-- Invariant: those that were taken are in `removed` until `unmark` has removed their markers.
--@include cancels answers transition
local session, number, limit, body = ARGV[1], ARGV[2], tonumber(ARGV[4]), ARGV[5]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local time, micros = clock()
local count, first = 0, body ~= '' and next_tokens(micros, limit)
while count < limit do
  local data = call('LMOVE', waiting, key('removed'), 'RIGHT', 'LEFT')
  if not data then break end
  if body == '' then
    counts.drop(data)
  else
    cancel_waiting(config, time, first + count, session, data, body)
  end
  count = count + 1
end
if count > 0 then call('PEXPIRE', key('removed'), @ANSWER_TTL_MS@) end
return remember(session, number, (count == limit and '1 ' or '0 ') .. count)
