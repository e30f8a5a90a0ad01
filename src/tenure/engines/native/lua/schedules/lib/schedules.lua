-- lib schedules: `schedules` has name → `<digest> <source>` newline definition, `ticks` name → the state, a line and
-- the reason of a pause: `<planned> <fire> <runs> <skipped> <missed> <last planned> <ran> <last id> <paused>`, and
-- `<ran> <id>` of up to RUNS_KEPT earlier jobs, the newest first; `due` name → when its tick is due.
-- `announced:<source>` has `<name> <digest>` → when a worker announced it last; and `@last` and `@since`: the last
-- announcement, and the first one without a pause. `moved` has name → when a worker of any source announced last that
-- its code has this schedule under another name.
-- Needs: digits. Defines: schedules. Redis: reads and writes.
local schedules = {}
local STATE = { 'planned', 'fire', 'runs', 'skipped', 'missed', 'last_planned', 'ran', 'last', 'paused' }

-- Raise an error if another program's data is at one of the keys, before anything is written.
function schedules.check_types()
  call('HLEN', key('schedules'))
  call('HLEN', key('ticks'))
  call('ZCARD', key('due'))
  call('ZCARD', key('moved'))
end

-- The digest of a definition and its source; nil: there is no such schedule.
function schedules.owner_of(name)
  return string.match(call('HGET', key('schedules'), name) or '', '^(%S+) ([^\n]+)\n')
end

-- Whether a source may have the schedules of `owner`: they are its own, or no worker of `owner`, which is no user
-- (`-`), has announced itself since `past`.
function schedules.may_take(source, owner, past)
  if owner == source then return true end
  if source == '-' or owner == '-' then return false end
  local last = call('ZSCORE', key('announced:' .. owner), '@last')
  return not last or tonumber(last) <= past
end

-- What a schedule has under its earlier names (its task was renamed): the schedules that its source may have, and
-- whether another source keeps one.
function schedules.predecessors(earlier, source, past)
  local found, is_kept = {}, false
  for name in string.gmatch(earlier, '%S+') do
    local digest, owner = schedules.owner_of(name)
    if digest and schedules.may_take(source, owner, past) then
      found[#found + 1] = { name, digest, owner }
    elseif digest and owner ~= '-' then
      is_kept = true
    end
  end
  return found, is_kept
end

-- Whether newer code, of any source, has this schedule under another name.
function schedules.has_moved(name, past)
  local at = call('ZSCORE', key('moved'), name)
  return at and tonumber(at) > past
end

-- Note for `ttl` ms that code which lives has schedules under other names than these.
function schedules.note_moved(earlier, time, ttl)
  for name in string.gmatch(earlier, '%S+') do call('ZADD', key('moved'), time, name) end
  if not string.find(earlier, '%S') then return end
  call('ZREMRANGEBYSCORE', key('moved'), '-inf', time - ttl)
  call('PEXPIRE', key('moved'), ttl)
end

-- A state as a table, from its text; by default the state of a new schedule.
local function parsed(text)
  local line, reason = string.match(text or '', '^([^\n]*)\n?(.*)$')
  local words, state = {}, { reason = reason }
  for word in string.gmatch(line, '%S+') do words[#words + 1] = word end
  for n, field in ipairs(STATE) do state[field] = words[n] or (field == 'last' and '-' or '0') end
  state.before = table.concat(words, ' ', #STATE + 1)
  return state
end

function schedules.state_of(name) return parsed(call('HGET', key('ticks'), name)) end

-- The digests of the definitions of some schedules, and their states, by their names.
function schedules.read(names)
  local definitions, texts = call('HMGET', key('schedules'), unpack(names)), call('HMGET', key('ticks'), unpack(names))
  local digests, states = {}, {}
  for n, name in ipairs(names) do
    digests[name], states[name] = string.match(definitions[n] or '', '^(%S+) [^\n]+\n'), parsed(texts[n])
  end
  return digests, states
end

-- Write states, by the names of their schedules, and list a schedule as due if it has a next tick and is not paused.
function schedules.write(states)
  local texts, due, idle = {}, {}, {}
  for name, state in pairs(states) do
    local words = {}
    for n, field in ipairs(STATE) do words[n] = state[field] end
    if state.before ~= '' then words[#words + 1] = state.before end
    local line = table.concat(words, ' ')
    texts[#texts + 1], texts[#texts + 2] = name, state.reason == '' and line or line .. '\n' .. state.reason
    if state.planned == '0' or state.paused ~= '0' then
      idle[#idle + 1] = name
    else
      due[#due + 1], due[#due + 2] = state.fire, name
    end
  end
  if #texts > 0 then call('HSET', key('ticks'), unpack(texts)) end
  if #due > 0 then call('ZADD', key('due'), unpack(due)) end
  if #idle > 0 then call('ZREM', key('due'), unpack(idle)) end
end

-- Note the job of a tick or a trigger, and keep those before it.
function schedules.note_run(state, id, time)
  if state.last ~= '-' and state.last ~= id then
    local before, kept = {}, state.ran .. ' ' .. state.last .. ' ' .. state.before
    for ran, earlier in string.gmatch(kept, '(%d+) (%S+)') do
      if #before < @RUNS_KEPT@ then before[#before + 1] = ran .. ' ' .. earlier end
    end
    state.before = table.concat(before, ' ')
  end
  state.last, state.ran = id, digits(time)
end

function schedules.count(state, field, more) state[field] = digits(tonumber(state[field]) + more) end

-- Delete the announcements of a source if none of a schedule is left.
function schedules.forget_source(announced)
  local members = call('ZRANGE', announced, 0, @ENDED_MOST@)
  for _, member in ipairs(members) do
    if string.sub(member, 1, 1) ~= '@' then return end
  end
  if #members <= @ENDED_MOST@ then call('DEL', announced) end
end

function schedules.remove(name, digest, source)
  call('HDEL', key('schedules'), name)
  call('HDEL', key('ticks'), name)
  call('ZREM', key('due'), name)
  if source == '-' then return end
  local announced = key('announced:' .. source)
  call('ZREM', announced, name .. ' ' .. digest)
  schedules.forget_source(announced)
end

-- How many ms until the next tick of the queue; -1: it has no schedule. Without a next tick, a day.
function schedules.wait(time)
  if call('EXISTS', key('schedules')) == 0 then return -1 end
  local fire = call('ZRANGE', key('due'), 0, 0, 'WITHSCORES')[2]
  return fire and math.max(0, tonumber(fire) - time) or @DAY@
end
