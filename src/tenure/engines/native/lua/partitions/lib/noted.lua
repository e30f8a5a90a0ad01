-- lib noted: the map of the queue's partitions, as this partition has noted it: `settings.map` is
-- `<version>:<number>:<number before, or 0>:<this partition>:<maximum length of the queue>`. Empty: a queue
-- without partitions, or a partition that no call has met yet.
-- Defines: noted_version, outdated. Redis: reads.

local function noted_version()
  local noted = call('HGET', key('settings'), 'map')
  return noted and tonumber(string.match(noted, '^%d+')) or 0, noted
end

-- The error for a caller that knows another version than is noted here. With an older one it could put a job where its
-- lane is not any more. With a newer one, this Redis was restored or emptied, or this partition has lost its note.
-- Race: the number of partitions changes between the moment when a caller reads the map and the call that uses it.
local function outdated(version)
  local found, noted = noted_version()
  if found ~= version then return redis.error_reply('TNMAP ' .. (noted or '')) end
end
