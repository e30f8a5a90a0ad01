-- lib types: another program's data in place of a key stops the operation before it changes anything.
local function check_types()
  call('SCARD', string.sub(prefix, 1, -#':tenure' - 1) .. ':active')
  call('SCARD', key('known'))
  call('LLEN', key('wake'))
  for _, suffix in ipairs({ 'meta', 'claims', 'foreign', 'parked', 'kept' }) do call('HLEN', key(suffix)) end
  for _, suffix in ipairs({ 'ready', 'holders', 'suspects', 'dropped', 'failed', 'broken', 'cancelled' }) do
    call('ZCARD', key(suffix))
  end
end
