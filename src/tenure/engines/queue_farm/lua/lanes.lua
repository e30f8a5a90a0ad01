-- lanes: some lanes in one state.
-- KEYS[1] prefix
-- ARGV state offset limit
-- Returns: {offset of the next page or 0, {lane, jobs that wait, jobs that are active, how it is parked or ''}...}
-- Invariant: changes nothing. Ready lanes are in the order of their turns.
--@include begin farm
local state, offset, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local lanes, size
if state == 'ready' then
  lanes, size = call('ZRANGE', key('ready'), offset, offset + limit - 1), call('ZCARD', key('ready'))
else
  local all = {}
  for _, name in ipairs(state == 'busy' and { 'claims', 'foreign' } or state == 'parked' and { 'parked' } or {}) do
    for _, lane in ipairs(call('HKEYS', key(name))) do all[#all + 1] = lane end
  end
  table.sort(all)
  lanes, size = {}, #all
  for n = offset + 1, math.min(size, offset + limit) do lanes[#lanes + 1] = all[n] end
end
local rows = {}
for n, lane in ipairs(lanes) do
  local waiting, active = lengths_of(lane)
  rows[n] = { lane, waiting or 0, active or 0, call('HGET', key('parked'), lane) or '' }
end
return { offset + #lanes < size and offset + #lanes or 0, rows }
