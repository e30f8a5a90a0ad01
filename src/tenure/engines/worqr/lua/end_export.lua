-- end_export: forget the tasks of a move that arrived, and return the others to the queue.
-- KEYS[1] prefix
-- ARGV move letters md5...
-- Returns: 1, or 0 when this move has ended before
-- Invariant: `letters` has one for each task: 1 it arrived, and its marker is gone; 0 it was refused, and goes to the left end of the
-- queue, out of the way of the others; b the whole move was refused, and is again at the right end. Sending it again is harmless.
--@include uniques
local move, letters = ARGV[1], ARGV[2]
allow_when_full()
check_types()
local kept = call('LRANGE', key('moving'), 0, -1)
if not kept[1] or cmsgpack.unpack(kept[1])[1] ~= move then return 0 end
local returned = 0
for n = #letters, 1, -1 do
  local letter, task = string.sub(letters, n, n), kept[2 * n + 1]
  if letter == '1' then
    free_last(task, ARGV[n + 2])
  else
    call(letter == 'b' and 'RPUSH' or 'LPUSH', waiting, task)
    returned = returned + 1
  end
end
call('DEL', key('moving'))
wake(returned)
return 1
