-- end_export: forget the jobs of a move, which have arrived; or return them to their places.
-- KEYS[1] prefix
-- ARGV move arrived
-- arrived: 1, or 0: nothing of the move was added; or one of them for each job.
-- Returns: 1, or 0 when this move has ended before.
-- Invariant: the jobs are in `moving`, or returned to the ends of their lists in their order; but a job with an id
-- that a producer has used again during the move is the same job, and not returned. Sending it again is harmless.
--@include begin types find ends admit rows
local move, arrived = ARGV[1], ARGV[2]
allow_when_full()
check_types()
local kept = call('LRANGE', key('moving'), 0, -1)
if not kept[1] or cmsgpack.unpack(kept[1])[1] ~= move then return 0 end
if string.find(arrived, '0', 1, true) then
  local time, rows_back = clock(), { kept[1] }
  for n = 2, #kept do
    if #arrived == 1 or string.sub(arrived, n - 1, n - 1) == '0' then
      local row = cmsgpack.unpack(kept[n])
      if call('HEXISTS', key('jobs'), row[2]) == 0 and not has_ended(row[2], time) then
        rows_back[#rows_back + 1] = row
        shapes.check(shape_of(row[3]))
      end
    end
  end
  kept = rows_back
  -- A job that waits for another one comes behind it.
  for n = #kept, 2, -1 do
    if kept[n][1] ~= 'f' then rows.arrive(kept[n], false, time) end
  end
  for n = 2, #kept do
    if kept[n][1] == 'f' then rows.arrive(kept[n], false, time) end
  end
end
call('DEL', key('moving'))
return 1
