-- find: look for what original clients did, while a worker waits.
-- KEYS[1] prefix
-- ARGV config
-- Returns: 1
-- Invariant: a lane that may run gets a turn, and one waiting worker a wake-up. Sending it again is harmless by nature.
--@include begin find
local config = cjson.decode(ARGV[1])
if #call('SDIFF', wire('active'), key('known')) > 0 or call('EXISTS', key('foreign')) == 1 then
  allow_when_full()
  find_news(config, (clock()))
end
return 1
