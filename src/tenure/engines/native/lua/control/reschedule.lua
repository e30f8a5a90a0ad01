-- reschedule: give a job that waits another time, another priority, or both.
-- KEYS[1] prefix
-- ARGV session number id due priority map
-- due: when it may run, in ms, or with + after how many ms; empty: as before. priority: empty: as before. map: the
-- version of the map of the queue's partitions that the caller knows.
-- Returns: 1; 0 when there is no such job, it does not wait, it waits for another job's end, or the queue or its lane
-- is on hold; 2 when it has a lane, limits or a share, which allow no priority.
-- Invariant: the job waits in one place. It keeps its counts, its unique key, and its turn where its lane waits for it.
--@include begin types answers find ends noted homes onhold transition
local session, number, id, due, priority = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local again = transition(session, number)
if again then return again end
local outdated_map = outdated(tonumber(ARGV[6]))
if outdated_map then return outdated_map end
local time = clock()
local state, detail, record = find(id)
local shape = shape_of(record)
local lane = shapes.word(shape, 'l')
local waits = state == 'ready' or state == 'unroutable' or state == 'scheduled' and detail ~= ''
-- A sweep has looked at `scheduled` before it looks at the jobs that are ready: none of these may go there.
if not waits or hold_left('', time) > 0 or lane and hold_left(lane, time) > 0 then
  return remember(session, number, '0')
end
local is_plain = not (lane or shapes.word(shape, 'm') or shapes.word(shape, 'g'))
if priority ~= '' and priority ~= '0' and not is_plain then return remember(session, number, '2') end

local changed = shape
if priority ~= '' and is_plain then
  local others = shape == '' and '' or string.gsub(' ' .. shape, ' p=%S+', '')
  changed = string.sub((priority == '0' and '' or ' p=' .. priority) .. others, 2)
end
local at = nil
if due ~= '' then at = math.max(time, (string.sub(due, 1, 1) == '+' and time or 0) + tonumber(due)) end
if at == time and state == 'ready' then at = nil end
local later = at and digits(at) or state == 'scheduled' and detail
-- A suspect stays in `isolated`, and a parked job where its task is looked for.
local stays = not later and (state == 'unroutable' or changed == shape or call('LPOS', key('isolated'), id))
if not stays then
  if not later then shapes.check(changed) end
  take_out(id, state, place_of(id, state, detail, record))
end
if changed ~= shape then
  local line, rest = string.match(record, '^([^\n]*)(.*)$')
  line = (string.match(line, '^(.-) [gklmnpu]=') or line) .. (changed == '' and '' or ' ' .. changed)
  record = line .. rest
  call('HSET', key('jobs'), id, record)
end
if later then
  local entry = due_entry(id, record)
  call('ZADD', key('scheduled'), later, entry)
  if call('ZRANGE', key('scheduled'), 0, 0)[1] == entry then wake_one() end
elseif not stays then
  shapes.place(id, changed)
end
if homes.changes then call('HSET', key('mover'), 'dirty', '1') end -- what `move` has looked at may have changed
return remember(session, number, '1')
