-- lib types: check the types of all keys that a call may write, before it writes any: Lua has no rollback. Another
-- program's data at one of our names stops the queue with an error until it is removed.
-- Sets: uses_features. Defines: check_types. Redis: reads.
--@include waitingtypes
local function check_types()
  check_all('ZCARD', { 'scheduled', 'holders', 'completed' })
  check_all('HLEN', { 'jobs', 'ended' })
  check_all('LLEN', { 'ready', 'wake' })
  local ends = call('EXISTS', key('failed'), key('broken'), key('cancelled'), key('tries'), key('kept'), key('watched'))
  if ends > 0 then
    check_all('ZCARD', { 'failed', 'broken', 'cancelled' })
    check_all('HLEN', { 'tries', 'kept', 'watched' })
  end
  check_waiting()
  local notes = call('EXISTS', key('cancelling'), key('progress'), key('unroutable'), key('blocked'))
  if notes > 0 then
    check_all('HLEN', { 'cancelling', 'progress', 'blocked' })
    check_all('SCARD', { 'unroutable' })
    uses_features = true
  end
  if has_limits() then
    uses_features = true
    check_all('HLEN', { 'gated', 'opened' })
    check_all('ZCARD', { 'moments' })
  end
end
