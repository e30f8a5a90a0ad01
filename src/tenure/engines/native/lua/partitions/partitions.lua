-- partitions: the map of a queue's partitions. `wanted` is stored if the queue has not been used, but at most
-- configured. `noted`, a map that the caller has just noted in all partitions, is stored if it is newer.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV queue wanted noted keep_ms
-- wanted: a number; 0: the caller configures the queue, and does not use it.
-- noted: `<number>` or `<number>:<version>:<number before>`; '' for none.
-- `keep_ms`: list the queue, as `register` does; '' to leave the list alone.
-- Returns: the map, as `noted`; '' without partitions
-- Invariant: the map of a queue that has been used is only replaced by a newer one. Sending it again is harmless.
--@include begin
local queue, wanted, noted, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local UNUSED = '1:0:0' -- the map of a queue that is in the list for its settings only
local stored = call('HGET', key('partitions'), queue)
local is_unused = stored == UNUSED or not stored and not call('ZSCORE', key('queues'), queue)

-- Version, number, and number before of a map; a version of 0 for none.
local function parsed(map)
  local number, version, before = string.match(map or '', '^(%d+):(%d+):(%d+)$')
  if number then return tonumber(version), number, before end
  return map and map ~= '' and 1 or 0, map, '0'
end

local version, number, before = parsed(noted)
local stored_version, stored_number, stored_before = parsed(stored)
-- Within one version, the map with a change that is over is newer.
local is_end = version == stored_version and number == stored_number and before == '0' and stored_before ~= '0'
if version > stored_version or is_end then
  stored = noted
  call('HSET', key('partitions'), queue, stored)
elseif is_unused and wanted ~= '1' then
  stored = wanted == '0' and UNUSED or wanted
  call('HSET', key('partitions'), queue, stored)
elseif stored == UNUSED and keep_ms ~= '' then -- by a producer without partitions in its code
  stored = ''
  call('HDEL', key('partitions'), queue)
end
if keep_ms ~= '' then
  call('ZADD', key('queues'), (clock()), queue)
  call('PEXPIRE', key('queues'), keep_ms)
end
return stored or ''
