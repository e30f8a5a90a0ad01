-- lib again: `again` is the remembered answer of a call that is sent again, an error reply for a call that was given up, or nil:
-- then the call is new. Stands where `session` and `number` are bound.
local again, kept = nil, call('GET', key('@CALLS@:' .. session))
if kept then
  local last, answer = string.match(kept, '^(%d+) (.*)$')
  if last == number then
    again = answer
  elseif tonumber(last) > tonumber(number) then
    -- A session makes one call at a time: an older number is a copy that was delayed on its way and given up.
    again = redis.error_reply('LHSTALE this call was given up and a later one has been made')
  end
end
