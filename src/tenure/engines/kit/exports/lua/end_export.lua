-- end_export: forget the jobs of a move that arrived, and return the others to their places.
-- KEYS[1] prefix
-- ARGV move letters config mark...
-- letters: one for each job: 1 it arrived, 0 it was refused, and goes to the end, out of the way of the others. None:
-- nothing of the move was added, and all are again where they were.
-- mark: what only Python can make of the bytes of a job, for formats that have one.
-- Returns: 1, or 0 when this move has ended before
-- Invariant: sending it again is harmless.
--@include begin moving page
local move, letters, config = ARGV[1], ARGV[2], cjson.decode(ARGV[3])
allow_when_full()
check_types()
local rows, header = page.rows()
local time = clock()
if header[1] ~= move then return 0 end
for n = #rows, 1, -1 do
  if letters == '' then moving.back(rows[n], 'RPUSH', config, time) end
end
for n = 1, #letters do
  if string.sub(letters, n, n) == '1' then
    moving.forget(rows[n], ARGV[n + 3])
  else
    moving.back(rows[n], 'LPUSH', config, time)
  end
end
call('DEL', page.moving)
return 1
