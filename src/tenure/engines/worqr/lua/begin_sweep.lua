-- begin_sweep: let one worker begin a search through all keys.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV ms
-- Returns: 1 when none has begun within `ms`, else 0
-- Invariant: at most one search begins within `ms`.
--@include begin
allow_when_full()
return call('SET', key('sweep'), '1', 'NX', 'PX', ARGV[1]) and 1 or 0
