-- unmark: remove the markers of tasks that were removed.
-- KEYS[1] prefix
-- ARGV session number md5...
-- `md5`: of the last entries of `removed`, the last one first.
-- Returns: how many are left there
-- Invariant: these entries are no longer in `removed`.
--@include jobs remember
local session, number = ARGV[1], ARGV[2]
--@include transition
for i = 3, #ARGV do
  free(ARGV[i])
  call('RPOP', key('removed'))
end
return remember(session, number, tostring(call('LLEN', key('removed'))))
