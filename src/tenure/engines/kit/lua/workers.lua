-- workers: the workers that announced themselves within `ttl_ms`.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV ttl_ms
-- Returns: {{worker, seen ms, text}...}
-- Invariant: changes nothing.
--@include begin
local ttl_ms = tonumber(ARGV[1])
local found = {}
local entries = call('ZRANGEBYSCORE', key('workers'), clock() - ttl_ms, '+inf', 'WITHSCORES', 'LIMIT', 0, 1000)
for i = 1, #entries, 2 do
  local text = call('GET', key('worker:' .. entries[i]))
  if text then found[#found + 1] = { entries[i], entries[i + 1], text } end
end
return found
