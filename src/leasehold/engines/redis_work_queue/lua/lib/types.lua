-- lib types: another program's data at one of our names is an error before anything has changed: Lua has no rollback.

-- The keys of single items and leases are read with MGET, to which a wrong type is the same as nothing.
local function check_types()
  call('LLEN', key('queue'))
  call('LLEN', key('processing'))
  for _, suffix in ipairs({ 'leased', 'attempts', 'passing', 'meta', 'kept', 'ended' }) do
    call('HLEN', key(suffix))
  end
  -- An intersection with a key that is never there reads nothing, but looks at the types of all.
  call(
    'ZINTER', 10, key('full'), key('holders'), key('suspects'), key('due'), key('later'), key('unleased'), key('stray'),
    key('failed'), key('broken'), key('cancelled')
  )
  call('SCARD', key('unroutable'))
end
