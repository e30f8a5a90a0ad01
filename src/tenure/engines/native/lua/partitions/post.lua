-- post: name a partition of a queue that has jobs, for one of the workers that wait.
-- KEYS[1] prefix of the queue's first partition
-- ARGV partition
-- Returns: 1
-- Invariant: `post` names a partition once. Sending it again is harmless by nature.
--@include begin
if not call('LPOS', key('post'), ARGV[1]) then call('RPUSH', key('post'), ARGV[1]) end
return 1
