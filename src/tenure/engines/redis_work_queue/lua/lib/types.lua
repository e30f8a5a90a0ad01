-- lib types: another program's data at one of our names is an error before anything has changed: Lua has no rollback.

-- The keys of single items and leases are read with MGET, to which a wrong type is the same as nothing.
local RARE = {
  LLEN = { 'taken' },
  HLEN = { 'attempts', 'passing', 'kept', 'ended' },
  ZCARD = { 'suspects', 'due', 'later', 'unleased', 'others', 'stray', 'failed', 'broken', 'cancelled' },
  SCARD = { 'unroutable' },
}

local function check_types()
  call('LLEN', key('queue'))
  call('LLEN', key('processing'))
  call('HLEN', key('leased'))
  call('HLEN', key('meta'))
  call('ZCARD', key('holders'))
  local names = {}
  for _, suffixes in pairs(RARE) do
    for _, suffix in ipairs(suffixes) do names[#names + 1] = key(suffix) end
  end
  if call('EXISTS', unpack(names)) == 0 then return end
  for read, suffixes in pairs(RARE) do
    for _, suffix in ipairs(suffixes) do call(read, key(suffix)) end
  end
end
