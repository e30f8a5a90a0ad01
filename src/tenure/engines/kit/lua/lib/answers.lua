-- lib answers: one key a session, `@CALLS@:<session>`, holds the number and the answer of its last call. So a call may
-- be sent again.

-- The remembered answer of a call that is sent again; an error reply for a call that was given up; nil for a new call.
local function recall(session, number)
  local last, answer = string.match(call('GET', key('@CALLS@:' .. session)) or '', '^(%d+) (.*)$')
  if last == number then return answer end
  -- A session makes one call at a time: an older number is a copy that was delayed on its way and given up.
  if last and tonumber(last) > tonumber(number) then
    return redis.error_reply('TNSTALE this call was given up and a later one has been made')
  end
end

-- `ms`: for how long, if not for the time of workers.
local function remember(session, number, answer, ms)
  call('SET', key('@CALLS@:' .. session), number .. ' ' .. answer, 'PX', ms or '@ANSWER_TTL_MS@')
  return answer
end
