-- lanes: some lanes in one state: ready (those with the next turns), busy, blocked or parked.
-- KEYS[1] prefix
-- ARGV state cursor limit
-- Returns: {where the next page begins, 0 for nowhere; {lane, waiting, busy, limit, parked, blockers, state}...}
-- Invariant: changes nothing.
--@include begin wake lanerow
local state, cursor, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local rows = {}
local function add(lane)
  if string.find(lane, '^[@$]') then return end
  local row = lane_row(lane)
  if row[7] == state then rows[#rows + 1] = row end
end

if state == 'ready' then
  local from = tonumber(cursor)
  local lanes = call('LRANGE', key('turns'), from, from + limit - 1)
  for _, lane in ipairs(lanes) do add(lane) end
  return { #lanes < limit and 0 or from + limit, rows }
end
local page = call('HSCAN', key(state == 'busy' and 'lanes' or state), cursor, 'COUNT', limit)
for i = 1, #page[2], 2 do add(page[2][i]) end
return { tonumber(page[1]), rows }
