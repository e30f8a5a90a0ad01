-- lanes: some lanes in one state: ready (those whose turn comes first), busy, blocked or parked.
-- KEYS[1] prefix
-- ARGV state cursor limit
-- Returns: {where the next page begins, 0 for nowhere; {lane, waiting, busy, limit, parked, blockers}...}
-- Invariant: changes nothing.
--@include begin wake shape lanerow
local state, cursor, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local rows = {}
if state == 'ready' then
  local from = tonumber(cursor)
  local lanes = call('LRANGE', key('turns'), from, from + limit - 1)
  for _, lane in ipairs(lanes) do
    rows[#rows + 1] = lane_row(lane)
  end
  return { #lanes < limit and 0 or from + limit, rows }
end
local page = call('HSCAN', key(state == 'busy' and 'lanes' or state), cursor, 'COUNT', limit)
for i = 1, #page[2], 2 do
  local row = lane_row(page[2][i])
  local blocked, busy = #row[6] >= row[4], row[3] >= row[4]
  if state == 'parked' or (row[5] == '' and busy and blocked == (state == 'blocked')) then
    rows[#rows + 1] = row
  end
end
return { tonumber(page[1]), rows }
