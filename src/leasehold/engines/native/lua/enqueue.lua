-- enqueue: add jobs to a queue, each at once or at its time; an id that exists already is left alone.
-- KEYS[1] prefix
-- ARGV session number room (id record due own)...
-- Returns: a string of one character a job: 1 added, 0 existed; - for a call without jobs, which gives up a move.
-- Invariant: a job that was added is in `jobs` and in exactly one of `ready` and `scheduled`. Without room for all nothing
-- is added.
--@include begin remember wake forget admit large layout tokens
local session, number, room = ARGV[1], ARGV[2], tonumber(ARGV[3])
--@include once
if #ARGV == 3 then
  allow_when_full()
  return remember(session, number, '-')
end
local time, micros = clock()
-- Reads of the keys that are written below: a wrong type is an error here, before anything has changed.
call('LLEN', key('ready'))
call('ZCARD', key('scheduled'))
for i = 7, #ARGV, 4 do
  if ARGV[i] ~= '0' then
    call('HLEN', key('ended'))
    break
  end
end
is_awake()
local function is_new(id, own)
  return call('HEXISTS', key('jobs'), id) == 0 and not (own ~= '0' and has_ended(id, time))
end
local full = refusal(room, function(id, at) return is_new(id, ARGV[at + 3]) end)
if full then return full end
note_layout()
local answers, ready, scheduled, later = {}, {}, {}, {}
local next_word, jobs, largest = words_from(micros), key('jobs'), 0
for i = 4, #ARGV, 4 do
  local id, record, due, own = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local added, begun = 0, next_word()
  if own == '0' or not has_ended(id, time) then
    added = call('HSETNX', jobs, id, begun .. ' ' .. record)
  end
  largest = math.max(largest, #record)
  if added == 1 then
    local at = due == '' and 0 or due_time(due, time)
    if at > time then
      scheduled[#scheduled + 1] = at
      local entry = begun .. '/' .. id -- as lib due has it
      scheduled[#scheduled + 1] = entry
      later[entry] = true
    else
      ready[#ready + 1] = id
    end
  end
  answers[#answers + 1] = added == 1 and '1' or '0'
end
note_size(largest)
--@include queued
return remember(session, number, table.concat(answers))
