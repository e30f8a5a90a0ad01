-- schedule_announce: a worker of a source lives, and its code has these schedules.
-- KEYS[1] prefix
-- ARGV source ttl_ms (name digest)...
-- Returns: {now, {name, current digest, planned, last planned}... to be put, {name}... that others have, {name}... ended}
-- Invariant: a schedule of the source ends when no worker has announced it for `ttl_ms`, while workers of the source have
-- announced themselves for that time. Of two definitions that workers announce, the later one stays. Sending it again is
-- harmless by nature.
--@include begin schedules
local source, ttl = ARGV[1], tonumber(ARGV[2])
allow_when_full()
schedules.check_types()
local time, announced = clock(), key('announced:' .. source)
local past = time - ttl

local function is_announced(member)
  local at = call('ZSCORE', announced, member)
  return at and tonumber(at) > past
end

local wanted, refused, ended, mine, touched = {}, {}, {}, {}, {}
if not is_announced('@last') then touched['@since'] = true end
touched['@last'] = true
for i = 3, #ARGV, 2 do
  local name, digest = ARGV[i], ARGV[i + 1]
  local current, owner = schedules.owner_of(name)
  local member = name .. ' ' .. digest
  mine[name] = true
  if current and owner ~= source then
    refused[#refused + 1] = name
  elseif current and (current == digest or is_announced(member) and is_announced(name .. ' ' .. current)) then
    touched[member] = true
  else
    -- `schedule_put` notes the announcement: if the worker dies before it, the next one is asked, too.
    local state = schedules.state_of(name)
    wanted[#wanted + 1] = { name, current or '', state.planned, state.last_planned }
  end
end
for member in pairs(touched) do call('ZADD', announced, time, member) end
local since = tonumber(call('ZSCORE', announced, '@since') or time)
if since <= past then
  for _, member in ipairs(call('ZRANGEBYSCORE', announced, '-inf', past, 'LIMIT', 0, @ENDED_MOST@)) do
    local name, digest = string.match(member, '^(%S+) (%S+)$')
    local current, owner = schedules.owner_of(name or '')
    if name and current == digest and owner == source and not mine[name] then
      schedules.remove(name, digest, source)
      ended[#ended + 1] = name
    elseif name and current ~= digest then
      call('ZREM', announced, member)
    end
  end
end
schedules.forget_source(announced)
return { time, wanted, refused, ended }
