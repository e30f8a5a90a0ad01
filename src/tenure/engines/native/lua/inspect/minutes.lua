-- minutes: how many jobs ended in each minute of the last day.
-- KEYS[1] prefix
-- ARGV
-- Returns: {now in ms, the ring; empty: none}, see engines/native/minutes.py
-- Invariant: changes nothing.
--@include begin
return { clock(), call('GET', key('minutes')) or '' }
