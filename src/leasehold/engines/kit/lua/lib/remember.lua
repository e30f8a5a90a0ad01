-- lib remember: a call that is sent again gets the answer of the first time. One key a session, holding its last call:
-- `@CALLS@:<session>`.

-- The remembered answer, an error reply for a call that was given up, or nil: then the call is new.
local function recall(session, number)
  local kept = call('GET', key('@CALLS@:' .. session))
  if not kept then return nil end
  local last, answer = string.match(kept, '^(%d+) (.*)$')
  last = tonumber(last)
  if last == tonumber(number) then return answer end
  -- A session makes one call at a time: an older number is a copy that was delayed on its way and given up.
  if last > tonumber(number) then
    return redis.error_reply('LHSTALE this call was given up and a later one has been made')
  end
  return nil
end

-- `ms`: for how long, if not for the time of workers.
local function remember(session, number, answer, ms)
  call('SET', key('@CALLS@:' .. session), number .. ' ' .. answer, 'PX', ms or '@ANSWER_TTL_MS@')
  return answer
end
