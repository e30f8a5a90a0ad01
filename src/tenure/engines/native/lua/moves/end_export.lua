-- end_export: forget the jobs of a move, which have arrived; or return them to their places.
-- KEYS[1] prefix
-- ARGV move letters
-- letters: one for each job: 1 it arrived, 0 it did not. None: nothing of the move was added.
-- Returns: 1, or 0 when this move has ended before.
-- Invariant: the jobs are in `moving`, or returned to the ends of their lists in their order; but a job with an id
-- that a producer has used again during the move is the same job, and not returned. Sending it again is harmless.
--@include begin types find ends admit rows
local move, letters = ARGV[1], ARGV[2]
allow_when_full()
check_types()
local found, header = page.rows()
if header[1] ~= move then return 0 end
local time, lines, followers = clock(), {}, {}
for n, row in ipairs(found) do
  local stays = string.sub(letters, n, n) ~= '1' and call('HEXISTS', key('jobs'), row[2]) == 0
  if stays and not has_ended(row[2], time) then
    shapes.check(shape_of(row[3]))
    table.insert(row[1] == 'f' and followers or lines, row)
  end
end
for n = #lines, 1, -1 do rows.arrive(lines[n], false, time) end
-- A job that waits for another one comes behind it.
for _, row in ipairs(followers) do rows.arrive(row, false, time) end
call('DEL', page.moving)
return 1
