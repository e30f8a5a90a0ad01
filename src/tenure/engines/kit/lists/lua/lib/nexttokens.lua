-- lib nexttokens: the tokens of new claims.

-- The first of `count` tokens in a row: higher than all before.
local function next_tokens(micros, count)
  local first = math.max(micros, tonumber(call('HGET', key('meta'), 'token') or 0) + 1)
  call('HSET', key('meta'), 'token', digits(first + count))
  return first
end
