-- lib answers: one key a session, `@CALLS@:<session>`, holds the number and the answer of its last call: see lib again.

-- `ms`: for how long, if not for the time of workers.
local function remember(session, number, answer, ms)
  call('SET', key('@CALLS@:' .. session), number .. ' ' .. answer, 'PX', ms or '@ANSWER_TTL_MS@')
  return answer
end
