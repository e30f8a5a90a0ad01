-- schedule_announce: a worker of a source lives, and its code has these schedules.
-- KEYS[1] prefix
-- ARGV source ttl_ms (name digest earlier)...
-- earlier: the names, with spaces between them, that the schedule had in earlier code.
-- Returns: {now, {name, current digest, planned, last planned}... to be put, {name}... refused, {name}... ended}
-- Invariant: a schedule of the source ends when no worker has announced it for `ttl_ms`, while workers of the source
-- have announced themselves for that time. A source without a worker for `ttl_ms` gives its names to one that has them.
-- If workers announce two definitions, the later one stays. Sending it again is harmless by nature.
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

local wanted, refused, ended, mine, touched, moved = {}, {}, {}, {}, {}, {}
if not is_announced('@last') then touched['@since'] = true end
touched['@last'] = true
for i = 3, #ARGV, 3 do
  local name, digest, earlier = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local current, owner = schedules.owner_of(name)
  local before, is_kept = schedules.predecessors(earlier, source, past)
  local member = name .. ' ' .. digest
  mine[name] = true
  if current and not schedules.may_take(source, owner, past)
    or not current and (is_kept or schedules.has_moved(name, past)) then
    refused[#refused + 1] = name
  else
    moved[#moved + 1] = earlier
    local is_known = current == digest or is_announced(member) and is_announced(name .. ' ' .. (current or ''))
    if current and owner == source and is_known and not before[1] then
      touched[member] = true
    else
      -- `schedule_put` notes the announcement: if the worker dies before it, the next one is asked, too.
      local state = schedules.state_of(not current and before[1] and before[1][1] or name)
      wanted[#wanted + 1] = { name, current or '', state.planned, state.last_planned }
    end
  end
end
for member in pairs(touched) do call('ZADD', announced, time, member) end
schedules.note_moved(table.concat(moved, ' '), time, ttl)
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
