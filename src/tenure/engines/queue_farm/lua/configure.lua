-- configure: pause the queue for Tenure workers, or resume it. Original workers do not know of it.
-- KEYS[1] prefix
-- ARGV session number paused
-- `paused`: 1, 0, or '' to change nothing.
-- Returns: 1 when the queue is paused now, else 0
-- Invariant: nothing is claimed while the queue is paused; what is held stays with its workers.
--@include begin answers farm transition
local session, number, paused = ARGV[1], ARGV[2], ARGV[3]
local again = transition(session, number)
if again then return again end
if paused == '1' then
  call('HSET', key('meta'), 'paused', 1)
elseif paused == '0' and call('HDEL', key('meta'), 'paused') == 1 then
  wake_one()
end
return remember(session, number, tostring(call('HEXISTS', key('meta'), 'paused')))
