-- shares: some shares with a stored weight.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV cursor limit
-- Returns: {the next cursor, {share, weight...}}; the cursor is 0 at the end.
-- Invariant: changes nothing.
--@include begin
return call('HSCAN', key('shares'), ARGV[1], 'COUNT', ARGV[2])
