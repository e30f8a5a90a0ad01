-- lib types: check the types of all keys that a call may write, before it writes any: Lua has no rollback. Another program's
-- data at one of our names stops the queue with an error until it is removed.
--@include lazy

local function check_all(command, suffixes)
  for _, suffix in ipairs(suffixes) do call(command, key(suffix)) end
end

local function check_types()
  -- Not with one ZINTER: it takes plain sets, too.
  check_all('ZCARD', { 'scheduled', 'holders', 'suspects', 'completed', 'failed', 'broken', 'cancelled' })
  check_all('HLEN', { 'jobs', 'ended', 'tries', 'kept', 'watched' })
  has_limits()
  check_all('LLEN', { 'ready', 'wake' })
  local there = call(
    'EXISTS', key('isolated'), key('turns'), key('priorities'), key('settings'), key('busy'), key('lanes'), key('limits'),
    key('parked'), key('unique'), key('again'), key('cancelling'), key('progress'), key('unroutable'), key('ghosts'),
    key('blocked'), key('windows'), key('holds')
  )
  uses_features = there > 0
  if uses_features then
    check_all('SCARD', { 'unroutable' })
    check_all('ZCARD', { 'priorities', 'windows', 'holds' })
    check_all('LLEN', { 'isolated', 'turns' })
    check_all('HLEN', {
      'settings', 'busy', 'lanes', 'limits', 'parked', 'unique', 'again', 'cancelling', 'progress', 'ghosts', 'blocked',
    })
  end
  if limited then
    uses_features = true
    check_all('HLEN', { 'gated', 'opened' })
    check_all('ZCARD', { 'moments' })
  end
end
