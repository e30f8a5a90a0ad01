-- enqueue: add jobs to a queue, each at once or at its time; an id that exists already is left alone.
-- KEYS[1] prefix
-- ARGV session number room job...
-- room: a number, and a job is (id record): it is next in line, and its id was drawn. Or `<number> <version> <each>`:
-- the version of the map of the queue's partitions that the caller knows (0: no map); each 2: as above; each 4:
-- a job is (id record due own).
-- Returns: a string of one character a job: 1 added, 0 existed; - for a call without jobs, which gives up a move.
-- A ! follows them if there was nothing to claim before.
-- Invariant: a job that was added is in `jobs` and in exactly one of `ready` and `scheduled`. Without room for all
-- nothing is added.
--@include keys answers wake words digits queued
local session, number, room = ARGV[1], ARGV[2], tonumber(ARGV[3])
local again = recall(session, number)
if again then return again end
if #ARGV == 3 then
--@part full
  allow_when_full()
  return remember(session, number, '-')
end
--@include now
local jobs, each, map = key('jobs'), 2, nil
if not room then
--@part noted
  room, map, each = string.match(ARGV[3], '^(%d+) (%d+) ([24])$')
  room, map, each = tonumber(room), tonumber(map), tonumber(each)
  local refused = outdated(map)
  if refused then return refused end
end

-- Reads of the keys that are written below: a wrong type is an error here, before anything has changed. (The first
-- write is to `jobs`, which fails by itself.)
call('LLEN', key('ready'))
is_awake()
local max_length = room > 0 and call('HGET', key('settings'), 'max_length')
local is_plain = each == 2
for i = 5, #ARGV, each do is_plain = is_plain and #ARGV[i] <= @LARGE_BYTES@ end
local has_ended_before, due_at, scheduled, later
if not is_plain or max_length or @LAYOUT@ > 1 then
--@part admitothers
  -- In a queue with partitions, max_length here is the share of this one: the caller has to know the others.
  local refused = max_length and not map and outdated(0) or admit_others(ARGV, room, each, time)
  if refused then return refused end
  has_ended_before, due_at, scheduled, later = has_ended, due_time, {}, {}
end
local answers, ready, begun_at = string.rep('1', (#ARGV - 3) / each), {}, digits(micros)
for i = 4, #ARGV, each do
  local n, id, due = (i - 4) / each, ARGV[i], each == 4 and ARGV[i + 2] or ''
  local begun = word_of(begun_at, n)
  local is_new = each == 2 or ARGV[i + 3] == '0' or not has_ended_before(id, time)
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
queue_jobs(ready, scheduled, later)
return remember(session, number, answers .. woke)
