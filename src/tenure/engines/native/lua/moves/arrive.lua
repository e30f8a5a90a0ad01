-- arrive: add the jobs of a move in front of those that wait here.
-- KEYS[1] prefix
-- ARGV session number token row...
-- token: the last one of the partition that the jobs leave; '': they leave another server.
-- row: as lib rows has it, as MessagePack; those of a list from its end on.
-- Returns: a string of one character a row: 1 it is here now, 0 another job with its id is here or has ended here; and
-- `!` as with `enqueue`
-- Invariant: a job that was added is in its place, with its key. The lane of a job from another server is closed until
-- close_lanes opens it; without room for all such jobs nothing is added. A job from another partition is in the queue
-- already, so there is room; its next token is higher than its last one, though the clock of another node gave that.
--@include begin types answers find ends admit layout rows
local session, number, token = ARGV[1], ARGV[2], tonumber(ARGV[3])
local again = recall(session, number)
if again then return again end
check_types()
if not token and call('EXISTS', page.moving) == 1 then
  return redis.error_reply('TNMOVING jobs of this queue are on their way to another server, or this is the same queue')
end
local time, found, answers, waiting = clock(), {}, {}, 0
for i = 4, #ARGV do
  local row = cmsgpack.unpack(ARGV[i])
  found[#found + 1] = row
  waiting = waiting + (row[1] == 'e' and 0 or 1)
  shapes.check(shape_of(row[3]))
end
local most, have = token and 0 or most_jobs(), call('HLEN', key('jobs'))
if most > 0 and waiting > 0 and have + waiting > most then
  return redis.error_reply('TNFULL ' .. have .. ' ' .. most .. ' ' .. waiting)
end
note_layout()
if token and token > tonumber(call('HGET', key('meta'), 'token') or 0) then
  call('HSET', key('meta'), 'token', ARGV[3])
end
for n, row in ipairs(found) do
  local kind, id, text, lasts = row[1], row[2], row[4], row[7]
  answers[n] = '1'
  if kind == 'k' then
    if not uniques.rival(id, time) then uniques.own_key(id, text, lasts) end
  elseif kind == 'p' then
    lanes.change({ id }, false, function() call('HSETNX', key('parked'), id, text) end)
  elseif call('HEXISTS', key('jobs'), id) == 1 or has_ended(id, time) then
    answers[n] = '0'
  else
    local lane = not token and kind == 'w' and shapes.word(shape_of(row[3]), 'l')
    if lane then rows.close(lane, time) end
    rows.arrive(row, true, time)
  end
end
return remember(session, number, table.concat(answers) .. woke)
