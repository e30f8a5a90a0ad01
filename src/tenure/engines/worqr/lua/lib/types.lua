-- lib types: another program's data in place of a key stops the operation before it changes anything.
-- `is_new`: the queue had no counters before this operation.
--@include names
local is_new = false
local function check_types()
  call('LLEN', waiting)
  call('SCARD', working)
  call('HLEN', key('jobs'))
  is_new = call('HLEN', key('meta')) == 0
end

-- Maintenance renews this. Where no worker has ever run it, the counters must not stay for ever.
local function limit_new_counters()
  if is_new then call('PEXPIRE', key('meta'), @META_TTL_MS@) end
end
