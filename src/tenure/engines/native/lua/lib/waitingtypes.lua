-- lib waitingtypes: check the types of the keys by which jobs wait for more than their turn: see lib types.
-- Sets: uses_features. Defines: check_all, check_waiting, only_lanes. Redis: reads.
--@include lazy

local function check_all(command, suffixes)
  for _, suffix in ipairs(suffixes) do call(command, key(suffix)) end
end

-- Whether none of the keys that `check_waiting` checks is there, except keys of lanes.
local only_lanes = false

-- The keys by which jobs of lanes, priorities and unique keys wait, and what stops jobs. Most queues lack most of them,
-- so one command asks whether any of those is there. (Not with one ZINTER, which takes plain sets, too.) Finds out
-- `uses_features` and `only_lanes`.
local function check_waiting()
  local in_lanes = call('HLEN', key('busy')) + call('HLEN', key('lanes')) + call('LLEN', key('turns'))
  local others = call(
    'EXISTS', key('isolated'), key('priorities'), key('settings'), key('limits'), key('parked'), key('unique'),
    key('again'),
    key('ghosts'), key('windows'), key('holds'), key('suspects'), key('expires'), key('then')
  )
  if others > 0 then
    check_all('ZCARD', { 'priorities', 'windows', 'holds', 'suspects', 'expires' })
    check_all('LLEN', { 'isolated' })
    check_all('HLEN', { 'settings', 'limits', 'parked', 'unique', 'again', 'ghosts', 'then' })
  end
  uses_features, only_lanes = in_lanes + others > 0, others == 0
end
