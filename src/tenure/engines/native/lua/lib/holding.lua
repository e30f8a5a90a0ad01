-- lib holding: what a worker holds.
-- Defines: token_of. Redis: reads.

-- Under which token a worker holds a job; nil when it does not.
local function token_of(worker, id)
  return string.match(call('HGET', key('held:' .. worker), id) or '', '^%d+')
end
