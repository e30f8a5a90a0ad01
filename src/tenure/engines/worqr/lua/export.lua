-- export: take the tasks at the right end of a queue out of it, for a queue of another protocol.
-- KEYS[1] prefix
-- ARGV move to limit bytes id_most
-- `id_most` is not used: every id that this script gives a job is one that a job can have elsewhere.
-- Returns: {how many tasks were taken, name of the move, its destination, ms since it began, {id, task}..., {}}
-- Invariant: a task is in the queue or in `moving` (a header, then id and task of each), never in both or in none. While `moving`
-- holds a move, that one is the answer, so sending it again is harmless. At most `bytes` of tasks, but one task at least.
--@include jobs
local move, to, limit, bytes = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
allow_when_full()
check_types()
local time, micros = clock()
if call('EXISTS', key('moving')) == 0 and call('EXISTS', waiting) == 1 then
  local first = next_tokens(micros, limit)
  call('RPUSH', key('moving'), cmsgpack.pack({ move, to, time }))
  for n = 0, limit - 1 do
    local task = call('LINDEX', waiting, -1)
    if not task or n > 0 and #task > bytes then break end
    bytes = bytes - #task
    take_counts(redis.sha1hex(task))
    call('RPUSH', key('moving'), string.match(new_pid(first + n, move), '[^_]*$'))
    call('LMOVE', waiting, key('moving'), 'RIGHT', 'RIGHT')
  end
end
local kept, rows = call('LRANGE', key('moving'), 0, -1), {}
local header = kept[1] and cmsgpack.unpack(kept[1]) or { '', '', time }
for i = 2, #kept, 2 do rows[#rows + 1] = { kept[i], kept[i + 1] } end
return { #rows, header[1], header[2], time - header[3], rows, {} }
