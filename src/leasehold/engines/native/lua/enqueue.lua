-- enqueue: add jobs to a queue, each at once or at its time; an id that exists already is left alone.
-- KEYS[1] prefix
-- ARGV session number room (id record due own)...
-- room: a number, or `<number> <version>` of a caller that knows a map of the queue's partitions: see lib mapped.
-- Returns: a string of one character a job: 1 added, 0 existed; - for a call without jobs, which gives up a move. Behind them ! if
-- there was nothing to claim before.
-- Invariant: a job that was added is in `jobs` and in exactly one of `ready` and `scheduled`. Without room for all nothing
-- is added.
--@include keys answers wake words digits
local session, number, room = ARGV[1], ARGV[2], tonumber(ARGV[3])
--@include once
if #ARGV == 3 then
--@part full
  allow_when_full()
  return remember(session, number, '-')
end
--@include now
local jobs, is_plain, map = key('jobs'), true, 0
if not room then
--@part mapped
end

-- Reads of the keys that are written below: a wrong type is an error here, before anything has changed. (Of `jobs`, the first
-- one that is written, it is one by itself.)
call('LLEN', key('ready'))
is_awake()
local max_length = room > 0 and call('HGET', key('settings'), 'max_length')
for i = 4, #ARGV, 4 do
  is_plain = is_plain and ARGV[i + 2] == '' and ARGV[i + 3] == '0' and #ARGV[i + 1] <= @LARGE_BYTES@
end
-- Most jobs are small, are next in line, and have ids that were drawn for them.
local has_ended_before, due_at, scheduled, later
if not is_plain or max_length or @LAYOUT@ > 1 then
--@part enqueueothers
end
local answers, ready, begun_at = string.rep('1', (#ARGV - 3) / 4), {}, digits(micros)
for i = 4, #ARGV, 4 do
  local n, id, due = (i - 4) / 4, ARGV[i], ARGV[i + 2]
  local begun = word_of(begun_at, n)
  local is_new = ARGV[i + 3] == '0' or not has_ended_before(id, time)
  if not is_new or call('HSETNX', jobs, id, begun .. ' ' .. ARGV[i + 1]) == 0 then
    answers = string.sub(answers, 1, n) .. '0' .. string.sub(answers, n + 2)
  else
    local at = due ~= '' and due_at(due, time) or 0
    if at > time then
      local entry = begun .. '/' .. id -- as lib due has it
      scheduled[#scheduled + 1], scheduled[#scheduled + 2] = at, entry
      later[entry] = true
    else
      ready[#ready + 1] = id
    end
  end
end
--@include queued
return remember(session, number, answers .. woke)
