-- enqueue: add jobs to a queue, each at once or at its time; an id that exists already is left alone.
-- KEYS[1] prefix
-- ARGV session number room (id record due own)...
-- Returns: a string of one character a job: 1 added, 0 existed; - for a call without jobs, which gives up a move.
-- Invariant: a job that was added is in `jobs` and in exactly one of `ready` and `scheduled`. Without room for all nothing
-- is added.
--@include begin lazy remember wake words
local session, number, room = ARGV[1], ARGV[2], tonumber(ARGV[3])
--@include once
if #ARGV == 3 then
  allow_when_full()
  return remember(session, number, '-')
end
local more = setmetatable({ function(my)
--@include admit large layout
  my.has_ended, my.refusal, my.due_time = has_ended, refusal, due_time
  my.note_size, my.note_layout = note_size, note_layout
end }, lazy)
local time, micros = clock()
local jobs = key('jobs')

-- Reads of the keys that are written below: a wrong type is an error here, before anything has changed. (Of `jobs`, the first
-- one that is written, it is one by itself.)
local has_due, largest = false, 0
call('LLEN', key('ready'))
is_awake()
for i = 4, #ARGV, 4 do
  has_due = has_due or ARGV[i + 2] ~= ''
  largest = math.max(largest, #ARGV[i + 1])
  if ARGV[i + 3] ~= '0' then call('HLEN', key('ended')) end
end
if has_due then call('ZCARD', key('scheduled')) end
if room > 0 and call('HEXISTS', key('settings'), 'max_length') == 1 then
  local full = more.refusal(room, function(id, at)
    return call('HEXISTS', jobs, id) == 0 and not (ARGV[at + 3] ~= '0' and more.has_ended(id, time))
  end)
  if full then return full end
end
if @LAYOUT@ > 1 then more.note_layout() end
if largest > @LARGE_BYTES@ then more.note_size(largest) end
local answers, ready, scheduled, later, next_word = {}, {}, {}, {}, words_from(micros)
for i = 4, #ARGV, 4 do
  local id, due, added, begun = ARGV[i], ARGV[i + 2], 0, next_word()
  if ARGV[i + 3] == '0' or not more.has_ended(id, time) then
    added = call('HSETNX', jobs, id, begun .. ' ' .. ARGV[i + 1])
  end
  local at = due ~= '' and added == 1 and more.due_time(due, time) or 0
  if at > time then
    local entry = begun .. '/' .. id -- as lib due has it
    scheduled[#scheduled + 1], scheduled[#scheduled + 2] = at, entry
    later[entry] = true
  elseif added == 1 then
    ready[#ready + 1] = id
  end
  answers[#answers + 1] = added
end
--@include queued
return remember(session, number, table.concat(answers))
