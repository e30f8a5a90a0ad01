-- set_share: store how many jobs of a share are claimed in one of its turns; 1 removes what is stored.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV session number share weight
-- Returns: 1
-- Invariant: the next turn of the share has this weight.
--@include begin answers
local session, number, share, weight = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
allow_when_full()
local again = recall(session, number)
if again then return again end
if weight == '1' then
  call('HDEL', key('shares'), share)
else
  call('HSET', key('shares'), share, weight)
end
return remember(session, number, '1')
