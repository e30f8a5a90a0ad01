-- end_export: forget the jobs of a move that arrived, and return the others to the list.
-- KEYS[1] prefix
-- ARGV move letters mark...
-- `mark`: what only Python can make of the bytes of a job, for formats that have one.
-- Returns: 1, or 0 when this move has ended before
-- Invariant: `letters` has one for each job: 1 it arrived; 0 it was refused, and goes to the left end of the list, out
-- of the way of the others; b the whole move was refused, and is again at the right end. Sending it again is harmless.
--@include moving
local move, letters = ARGV[1], ARGV[2]
allow_when_full()
check_types()
local kept = call('LRANGE', key('moving'), 0, -1)
if not kept[1] or cmsgpack.unpack(kept[1])[1] ~= move then return 0 end
local returned = 0
for n = #letters, 1, -1 do
  local letter, data = string.sub(letters, n, n), kept[2 * n + 1]
  if letter == '1' then
    moving.forget_marks(data, ARGV[n + 2])
  else
    call(letter == 'b' and 'RPUSH' or 'LPUSH', waiting, data)
    returned = returned + 1
  end
end
call('DEL', key('moving'))
held.wake(returned)
return 1
