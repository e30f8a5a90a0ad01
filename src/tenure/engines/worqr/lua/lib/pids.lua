-- lib pids: the ids of new processes.
--@include nexttokens

-- A process id as originals make it: the queue and a UUID. It belongs to one claim, and is never used again. It begins
-- with the token, so that the ids of a queue are in the order of the claims.
local function new_pid(token, salt)
  local low = token % 0x1000000
  local order = string.format('%08x%06x', (token - low) / 0x1000000, low)
  local hex = redis.sha1hex(order .. ' ' .. salt .. ' ' .. prefix)
  return queue .. '_' .. table.concat({
    string.sub(order, 1, 8), string.sub(order, 9, 12), '4' .. string.sub(order, 13, 14) .. string.sub(hex, 1, 1),
    'a' .. string.sub(hex, 2, 4), string.sub(hex, 5, 16),
  }, '-')
end
