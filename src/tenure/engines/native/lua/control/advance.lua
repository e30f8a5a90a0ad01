-- advance: let time pass for the jobs of a queue, in a test: every time in its keys moves `ms` towards the past.
-- KEYS[1] prefix
-- ARGV session number ms
-- Returns: 1, or an error if a key has more than @ADVANCE_MOST@ entries.
-- Invariant: jobs stay where they are, in their order. Leases and calls keep their times: they belong to living
-- processes.
--@include begin types answers transition
local session, number, ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local again = transition(session, number)
if again then return again end
local kept = { 'completed', 'failed', 'broken', 'cancelled' }
local places = { 'scheduled', 'windows', 'moments', 'expires', unpack(kept) }

for _, name in ipairs(places) do
  if call('ZCARD', key(name)) > @ADVANCE_MOST@ then
    return redis.error_reply('ERR ' .. key(name) .. ' has too many entries to advance, the limit is @ADVANCE_MOST@')
  end
end

local blocked = 9999999999999 -- the end of a job that blocks its lane never expires

local function move_end(id)
  local text = call('HGET', key('ended'), id)
  local state, at, expires, rest = string.match(text or '', '^(%S+) (%d+) (%d+)(.*)$')
  if not state then return end
  if tonumber(expires) ~= blocked then expires = digits(tonumber(expires) - ms) end
  call('HSET', key('ended'), id, state .. ' ' .. digits(tonumber(at) - ms) .. ' ' .. expires .. rest)
end

local function move_window(unique)
  local till, id = string.match(call('HGET', key('unique'), unique) or '', '^(%d+) (.*)$')
  if till and till ~= '0' then call('HSET', key('unique'), unique, digits(tonumber(till) - ms) .. ' ' .. id) end
end

for _, name in ipairs(places) do
  local found = call('ZRANGE', key(name), 0, -1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local at = tonumber(found[i + 1])
    if at ~= blocked then call('ZADD', key(name), digits(at - ms), found[i]) end
    if name == 'windows' then
      move_window(found[i])
    elseif name ~= 'scheduled' and name ~= 'moments' and name ~= 'expires' then
      move_end(found[i])
    end
  end
end
return remember(session, number, '1')
