-- remains: whether anything is left of some lanes.
-- KEYS[1] prefix
-- ARGV lane...
-- Returns: for each lane '-' if something is left, else the text that `parked` has of it, or ''; then, as a table, the
-- lanes of the jobs that wait for another job with their key to end, and how many jobs are in a move that has not
-- ended.
-- Invariant: changes nothing.
--@include begin find ends line
local moving = math.max(0, call('LLEN', key('moving')) - 1)
local answers, is_followed, followed = {}, {}, {}
for _, id in ipairs(following()) do
  local lane = shapes.word(shape_of(call('HGET', key('jobs'), id)), 'l')
  if lane and not is_followed[lane] then
    is_followed[lane] = true
    followed[#followed + 1] = lane
  end
end
for n, lane in ipairs(ARGV) do
  local is_empty = moving == 0 and call('EXISTS', key('lane:' .. lane)) == 0 and lanes.busy_of(lane) == 0
  answers[n] = is_empty and not is_followed[lane] and (call('HGET', key('parked'), lane) or '') or '-'
end
return { answers, followed, moving }
