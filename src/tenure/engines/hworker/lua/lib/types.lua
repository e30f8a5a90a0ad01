-- lib types: another program's data in place of a key stops the operation before it changes anything.
--@include names
local function check_types()
  call('LLEN', waiting)
  call('HLEN', progress)
  call('LLEN', failed_list)
  call('HLEN', broken_hash)
  call('LLEN', taken)
  call('HLEN', key('jobs'))
  call('HLEN', key('meta'))
end
