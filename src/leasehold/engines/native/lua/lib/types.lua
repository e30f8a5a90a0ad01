-- lib types: another program's data at one of our names is an error before anything has changed. Lua has no rollback.
local function check_types()
  for _, suffix in ipairs({ 'jobs', 'tries', 'meta', 'ghosts', 'ended', 'kept', 'watched' }) do
    call('HLEN', key(suffix))
  end
  for _, suffix in ipairs({ 'scheduled', 'holders', 'suspects', 'completed', 'failed', 'broken', 'cancelled' }) do
    call('ZCARD', key(suffix))
  end
  call('LLEN', key('ready'))
  call('LLEN', key('isolated'))
  call('LLEN', key('wake'))
  call('SCARD', key('unroutable'))
end
