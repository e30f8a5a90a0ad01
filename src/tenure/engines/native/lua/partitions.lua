-- partitions: the map of a queue's partitions. `wanted` is stored if the queue has not been used. `noted`, a map that the caller has
-- just noted in all partitions, is stored if it is newer.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV queue wanted noted keep_ms
-- wanted: a number. noted: `<number>` or `<number>:<version>:<number before>`; '' for none.
-- `keep_ms`: list the queue, as `register` does; '' to leave the list alone.
-- Returns: the map, as `noted`; '' without partitions
-- Invariant: the map of a queue that has been used is only replaced by a newer one. Sending it again is harmless.
--@include begin
local queue, wanted, noted, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local stored = call('HGET', key('partitions'), queue)

-- Version, number, and number before of a map; a version of 0 for none.
local function parsed(map)
  local number, version, before = string.match(map or '', '^(%d+):(%d+):(%d+)$')
  if number then return tonumber(version), number, before end
  return map and map ~= '' and 1 or 0, map, '0'
end

local version, number, before = parsed(noted)
local stored_version, stored_number, stored_before = parsed(stored)
-- Of one version, the map whose change is over is newer.
local is_end = version == stored_version and number == stored_number and before == '0' and stored_before ~= '0'
if version > stored_version or is_end then
  stored = noted
  call('HSET', key('partitions'), queue, stored)
elseif not stored and wanted ~= '1' and not call('ZSCORE', key('queues'), queue) then
  stored = wanted
  call('HSET', key('partitions'), queue, stored)
end
if keep_ms ~= '' then
  call('ZADD', key('queues'), (clock()), queue)
  call('PEXPIRE', key('queues'), keep_ms)
end
return stored or ''
