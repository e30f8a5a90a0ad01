-- lib types: another program's data at one of our names is an error before anything has changed: Lua has no rollback.

-- The keys of single items and leases are read with MGET, to which a wrong type is the same as nothing.
local function check_types()
  call('LLEN', key('queue'))
  call('LLEN', key('processing'))
  call('LLEN', key('taken'))
  for _, suffix in ipairs({ 'leased', 'attempts', 'passing', 'meta', 'kept', 'ended' }) do
    call('HLEN', key(suffix))
  end
  for _, suffix in ipairs({
    'full', 'holders', 'suspects', 'due', 'later', 'unleased', 'stray', 'failed', 'broken', 'cancelled',
  }) do
    call('ZCARD', key(suffix))
  end
  call('SCARD', key('unroutable'))
end
