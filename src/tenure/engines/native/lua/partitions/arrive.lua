-- arrive: add what `move` has taken out of another partition of the queue.
-- KEYS[1] prefix
-- ARGV session number token row...
-- token, row: as `move` answers them.
-- Returns: a string of one character a row: 1 it is here now, 0 another job with its id is here or has ended here; and
-- `!` as with `enqueue`
-- Invariant: a job that was added is in its place, with its key. There is room for it: it is in the queue already. Its
-- next token is higher than its last one, though that was given by the clock of another node.
--@include begin types answers find ends admit layout rows
local session, number = ARGV[1], ARGV[2]
local again = recall(session, number)
if again then return again end
check_types()
local time, answers = clock(), {}
note_layout()
if tonumber(ARGV[3]) > tonumber(call('HGET', key('meta'), 'token') or 0) then
  call('HSET', key('meta'), 'token', ARGV[3])
end
for n = 4, #ARGV do
  local row, answer = cmsgpack.unpack(ARGV[n]), '1'
  local kind, id, lasts = row[1], row[2], row[7]
  if kind == 'k' then
    if not uniques.rival(id, time) then uniques.own_key(id, row[4], lasts) end
  elseif kind == 'p' then
    lanes.change({ id }, false, function() call('HSETNX', key('parked'), id, row[4]) end)
  elseif call('HEXISTS', key('jobs'), id) == 1 or has_ended(id, time) then
    answer = '0'
  else
    rows.arrive(row, true, time)
  end
  answers[#answers + 1] = answer
end
return remember(session, number, table.concat(answers) .. woke)
