-- lib noted: the map of the queue's partitions, as this partition has noted it: `settings.map` is
-- `<version>:<number>:<number before, or 0>:<this partition>:<maximum length of the queue>`. A queue whose number was never changed
-- has none.
-- Defines: outdated. Redis: reads.

-- The error for a caller that knows an older version than is noted here: it could put a job where its lane is not any more.
local function outdated(version)
  local noted = call('HGET', key('settings'), 'map')
  if noted and tonumber(string.match(noted, '^%d+')) > version then return redis.error_reply('LHMAP ' .. noted) end
end
