-- flow_members: what has become of members of a group.
-- KEYS[1] prefix
-- ARGV id start count
-- start: the number of the first one.
-- Returns: for each member {state}, empty for one that has not ended; of a flow {state, its fields}.
-- Invariant: changes nothing.
--@include begin flow
local id, start, count, found = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), {}
local bits = call('GET', flow.key(id, ':ended')) or ''
local numbers = {}
for n = start, start + count - 1 do numbers[#numbers + 1] = digits(n) end
local failed = #numbers > 0 and call('HMGET', flow.key(id, ':failed'), unpack(numbers)) or {}
for i, text in ipairs(failed) do
  local n = start + i - 1
  local byte = string.byte(bits, math.floor(n / 8) + 1) or 0
  local has_ended = math.floor(byte / 2 ^ (7 - n % 8)) % 2 == 1
  found[i] = { text and string.match(text, '^%S+') or has_ended and 'completed' or '' }
  local _, fields = flow.of(id .. '.' .. digits(n))
  found[i][2] = fields
end
return found
