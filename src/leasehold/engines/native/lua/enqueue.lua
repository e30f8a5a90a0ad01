-- enqueue: add jobs to a queue, each at once or at its time; an id that exists already is left alone.
-- KEYS[1] prefix
-- ARGV session number (id record due own)...
-- Returns: a string of one character a job: 1 added, 0 existed.
-- Invariant: a job that was added is in `jobs` and in exactly one of `ready` and `scheduled`.
--@include begin remember wake ends
local session, number = ARGV[1], ARGV[2]
local answer = recall(session, number)
if answer then
  return answer
end
local time = clock()
-- Reads of the keys that are written below: a wrong type is an error here, before anything has changed.
call('LLEN', key('ready'))
call('ZCARD', key('scheduled'))
call('LLEN', key('wake'))
local answers, ready, scheduled, later = {}, {}, {}, {}

-- Is there a record of an earlier job with this id? One past its time is forgotten here.
local function has_ended(id)
  local ended = call('HGET', key('ended'), id)
  if not ended then
    return false
  end
  local state, expires = string.match(ended, '^(%S+) %d+ (%d+)')
  if not state or tonumber(expires) > time then
    return true
  end
  forget(state, { id }, true)
  return false
end

for i = 3, #ARGV, 4 do
  local id, record, due, own = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local added = 0
  if own == '0' or not has_ended(id) then
    added = call('HSETNX', key('jobs'), id, time .. ' ' .. record)
  end
  if added == 1 then
    -- due: empty for now, +n for n ms from now, n for a time since 1970.
    local at = 0
    if due ~= '' then
      at = string.sub(due, 1, 1) == '+' and time + tonumber(due) or tonumber(due)
    end
    if at > time then
      scheduled[#scheduled + 1] = at
      scheduled[#scheduled + 1] = id
      later[id] = true
    else
      ready[#ready + 1] = id
    end
  end
  answers[#answers + 1] = added
end
if #ready > 0 then
  call('RPUSH', key('ready'), unpack(ready))
  wake_one()
end
if #scheduled > 0 then
  call('ZADD', key('scheduled'), unpack(scheduled))
  -- A new head: somebody idle must learn when to look again.
  if later[call('ZRANGE', key('scheduled'), 0, 0)[1]] then
    wake_one()
  end
end
return remember(session, number, table.concat(answers))
