-- lib types: another program's data at one of our names is an error before anything has changed. Lua has no rollback.
--@include rare

local function check_types()
  -- Not with one ZINTER: it takes plain sets, too.
  for _, suffix in ipairs({ 'scheduled', 'holders', 'suspects', 'completed', 'failed', 'broken', 'cancelled' }) do
    call('ZCARD', key(suffix))
  end
  for _, suffix in ipairs({ 'jobs', 'meta', 'ended', 'tries', 'kept', 'watched' }) do
    call('HLEN', key(suffix))
  end
  call('LLEN', key('ready'))
  call('LLEN', key('wake'))
  local there = call(
    'EXISTS', key('isolated'), key('turns'), key('priorities'), key('settings'), key('busy'), key('lanes'), key('limits'),
    key('parked'), key('unique'), key('again'), key('cancelling'), key('progress'), key('unroutable'), key('ghosts'),
    key('blocked'), key('windows'), key('holds')
  )
  rare = there > 0
  if rare then
    call('SCARD', key('unroutable'))
    call('ZCARD', key('priorities'))
    call('ZCARD', key('windows'))
    call('ZCARD', key('holds'))
    call('LLEN', key('isolated'))
    call('LLEN', key('turns'))
    for _, suffix in ipairs({
      'settings', 'busy', 'lanes', 'limits', 'parked', 'unique', 'again', 'cancelling', 'progress', 'ghosts',
      'blocked',
    }) do
      call('HLEN', key(suffix))
    end
  end
end
