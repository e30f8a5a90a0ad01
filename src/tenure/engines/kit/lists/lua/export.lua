-- export: take the jobs at the right end of the list out of it, for a queue of another protocol.
-- KEYS[1] prefix
-- ARGV move to limit bytes id_most
-- `id_most` is not used: each job has an id here that it can have elsewhere.
-- Returns: {how many jobs were taken, name of the move, its destination, ms since it began, {id, bytes}..., {}}
-- Invariant: a job is in the list or in `moving` (a header, then id and bytes of each), never in both or in none. While
-- `moving` holds a move, that one is the answer, so sending it again is harmless. At most `bytes` of jobs, but one job
-- at least.
--@include moving
local move, to, limit, bytes = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
allow_when_full()
check_types()

-- The next job; up to `limit` phantoms in front of it go.
local function next_job()
  for _ = 1, limit do
    local data = call('LINDEX', waiting, -1)
    if not data or not hold.is_phantom(data) then return data end
    call('RPOP', waiting)
  end
end

local time, micros = clock()
if call('EXISTS', key('moving')) == 0 and call('EXISTS', waiting) == 1 then
  local first, there = next_tokens(micros, limit), {}
  held.run_due(time)
  call('RPUSH', key('moving'), cmsgpack.pack({ move, to, time }))
  for n = 0, limit - 1 do
    local data = next_job()
    if not data or n > 0 and #data > bytes then break end
    bytes = bytes - #data
    local id = moving.id_of(data, move, first + n, there)
    there[id] = true
    counts.drop(data)
    call('RPUSH', key('moving'), id)
    call('LMOVE', waiting, key('moving'), 'RIGHT', 'RIGHT')
  end
end
local kept, rows = call('LRANGE', key('moving'), 0, -1), {}
local header = kept[1] and cmsgpack.unpack(kept[1]) or { '', '', time }
for i = 2, #kept, 2 do rows[#rows + 1] = { kept[i], kept[i + 1] } end
return { #rows, header[1], header[2], time - header[3], rows, {} }
