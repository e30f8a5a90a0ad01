-- markers: remove markers of unique tasks that are nowhere.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV grace_ms md5...
-- Returns: how many were removed
-- Invariant: a marker goes when its task was nowhere at two searches with `grace_ms` between them, and nothing has
-- enqueued it in between. Sending it again is harmless.
--@include names
local grace_ms = tonumber(ARGV[1])
allow_when_full()
local time, removed, marks = clock(), 0, key('markers')
for i = 2, #ARGV do
  local since = tonumber(call('ZSCORE', marks, ARGV[i]) or nil)
  if not since or since > time then
    call('ZADD', marks, time, ARGV[i])
  elseif time - since >= grace_ms then
    call('ZREM', marks, ARGV[i])
    removed = removed + call('DEL', marker_key(ARGV[i]))
  end
end
call('PEXPIRE', marks, @META_TTL_MS@)
return removed
