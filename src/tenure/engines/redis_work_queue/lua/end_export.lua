-- end_export: forget the items of a move that arrived, and return the others to the queue.
-- KEYS[1] prefix
-- ARGV move letters
-- Returns: 1, or 0 when this move has ended before
-- Invariant: `letters` has one for each item: 1 it arrived; 0 it was refused, and goes to the left end of `queue`, out
-- of the way of the others; b the whole move was refused, and it is again at the right end. Sending it again is
-- harmless by nature.
--@include begin types gone
local move, letters = ARGV[1], ARGV[2]
allow_when_full()
check_types()
local kept = call('LRANGE', key('meta:moving'), 0, -1)
if kept[1] ~= move then
  return 0
end
local function requeue(n, command)
  -- An item that another client added under this id during the move replaces it, as in the queue.
  call('SETNX', key('item:' .. kept[2 * n + 2]), kept[2 * n + 3])
  call(command, key('queue'), kept[2 * n + 2])
end
for n = 1, #letters do
  local letter, id = string.sub(letters, n, n), kept[2 * n + 2]
  if letter == '0' then
    requeue(n, 'LPUSH')
  elseif letter == '1' and call('EXISTS', key('item:' .. id)) == 0 then
    remove_item(id)
  end
end
for n = #letters, 1, -1 do
  if string.sub(letters, n, n) == 'b' then
    requeue(n, 'RPUSH')
  end
end
call('DEL', key('meta:moving'))
return 1
