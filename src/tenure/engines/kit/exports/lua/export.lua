-- export: take waiting jobs out of a queue, for a queue of another protocol; or answer those of a move that has not
-- ended.
-- KEYS[1] prefix
-- ARGV move to limit bytes config id_most
-- Returns: {name of the move, its destination, ms since it began, {row...}, how many entries were looked at, {id that
-- no job can have elsewhere...}}
-- Invariant: a job is in its place or in `moving`, never in both or in none. Jobs are taken in their order, at most
-- `bytes` of them, but one at least. Sending it again is harmless.
--@include begin moving page
local limit, id_most = tonumber(ARGV[3]), tonumber(ARGV[6])
allow_when_full()
check_types()
local time, micros = clock()
local looked, unfit = 0, {}
if page.begin({ ARGV[1], ARGV[2], time }, limit, tonumber(ARGV[4])) then
  looked = moving.take({ limit = limit, id_most = id_most, unfit = unfit, time = time, micros = micros,
    config = cjson.decode(ARGV[5]), move = ARGV[1] })
end
local rows, header = page.rows()
return { header[1], header[2], time - header[3], rows, math.max(looked, #rows), unfit }
