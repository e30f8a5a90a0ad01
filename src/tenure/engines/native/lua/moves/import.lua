-- import: add the jobs of a move that another server exported, in front of those that wait here.
-- KEYS[1] prefix
-- ARGV session number row...
-- row: as lib rows has it, as MessagePack; rows of a list from its end on.
-- Returns: a string of one character a row: 1 it was added, 0 a job with its id is here or has ended here.
-- Invariant: a job that was added is in its place, and its lane is closed until close_lanes opens it. Without room for
-- all nothing is added.
--@include begin types answers find ends admit layout rows
local session, number = ARGV[1], ARGV[2]
local again = recall(session, number)
if again then return again end
check_types()
if call('EXISTS', key('moving')) == 1 then
  return redis.error_reply('TNMOVING jobs of this queue are on their way to another server, or this is the same queue')
end
local time, found, answers, waiting = clock(), {}, {}, 0
for i = 3, #ARGV do
  local row = cmsgpack.unpack(ARGV[i])
  found[#found + 1] = row
  waiting = waiting + (row[1] == 'e' and 0 or 1)
  shapes.check(shape_of(row[3]))
end
local most, have = most_jobs(), call('HLEN', key('jobs'))
if most > 0 and waiting > 0 and have + waiting > most then
  return redis.error_reply('TNFULL ' .. have .. ' ' .. most .. ' ' .. waiting)
end
note_layout()
for n, row in ipairs(found) do
  local is_here = call('HEXISTS', key('jobs'), row[2]) == 1 or has_ended(row[2], time)
  answers[n] = is_here and '0' or '1'
  if not is_here then
    local lane = row[1] == 'w' and shapes.word(shape_of(row[3]), 'l')
    if lane then rows.close(lane, time) end
    rows.arrive(row, true, time)
  end
end
return remember(session, number, table.concat(answers))
