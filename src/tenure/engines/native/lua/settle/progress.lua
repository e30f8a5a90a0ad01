-- progress: note the progress of a held job, and publish it to its watchers.
-- KEYS[1] prefix
-- ARGV worker id token text
-- Returns: 1, or 0 when the worker does not hold the lease.
-- Invariant: only the holder of the token can. Sending it again is harmless: the next one replaces it.
--@include begin
local worker, id, token, text = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
allow_when_full()
local mine = string.match(call('HGET', key('held:' .. worker), id) or '', '^(%d+)')
if mine ~= token then return 0 end
-- At the memory limit it is not noted: progress is not worth an error.
local time = clock()
redis.pcall('HSET', key('progress'), id, time .. ' ' .. text)
if call('HEXISTS', key('watched'), id) == 1 then
  call('PUBLISH', string.gsub(prefix, '/%d+%-%d+}$', '}') .. ':ended:' .. id, 'progress')
end
return 1
