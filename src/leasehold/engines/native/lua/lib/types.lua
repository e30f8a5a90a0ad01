-- lib types: check the types of all keys that a call may write, before it writes any: Lua has no rollback. Another program's
-- data at one of our names stops the queue with an error until it is removed.
--@include lazy

local function check_all(command, suffixes)
  for _, suffix in ipairs(suffixes) do call(command, key(suffix)) end
end

-- The keys by which jobs of lanes, priorities and unique keys wait, and what stops jobs. Most queues lack most of them, so one command
-- asks whether any of those is there. (Not with one ZINTER, which takes plain sets, too.)
local function check_waiting()
  local in_lanes = call('HLEN', key('busy')) + call('HLEN', key('lanes')) + call('LLEN', key('turns'))
  local others = call(
    'EXISTS', key('isolated'), key('priorities'), key('settings'), key('limits'), key('parked'), key('unique'), key('again'),
    key('ghosts'), key('windows'), key('holds'), key('suspects')
  )
  if others > 0 then
    check_all('ZCARD', { 'priorities', 'windows', 'holds', 'suspects' })
    check_all('LLEN', { 'isolated' })
    check_all('HLEN', { 'settings', 'limits', 'parked', 'unique', 'again', 'ghosts' })
  end
  uses_features = in_lanes + others > 0
end

local function check_types()
  check_all('ZCARD', { 'scheduled', 'holders', 'completed' })
  check_all('HLEN', { 'jobs', 'ended' })
  check_all('LLEN', { 'ready', 'wake' })
  local ends = call('EXISTS', key('failed'), key('broken'), key('cancelled'), key('tries'), key('kept'), key('watched'))
  if ends > 0 then
    check_all('ZCARD', { 'failed', 'broken', 'cancelled' })
    check_all('HLEN', { 'tries', 'kept', 'watched' })
  end
  check_waiting()
  local notes = call('EXISTS', key('cancelling'), key('progress'), key('unroutable'), key('blocked'))
  if notes > 0 then
    check_all('HLEN', { 'cancelling', 'progress', 'blocked' })
    check_all('SCARD', { 'unroutable' })
    uses_features = true
  end
  if has_limits() then
    uses_features = true
    check_all('HLEN', { 'gated', 'opened' })
    check_all('ZCARD', { 'moments' })
  end
end
