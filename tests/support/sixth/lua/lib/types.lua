-- lib types: another program's data in place of a key stops the operation before it changes anything.
local function check_types()
  call('ZCARD', key('ready'))
  call('HLEN', key('jobs'))
  call('HLEN', key('meta'))
end
