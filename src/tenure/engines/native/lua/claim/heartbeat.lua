-- heartbeat: keep all leases that a worker holds on a queue, and do what is due.
-- KEYS[1] prefix
-- ARGV config worker (id token)...
-- Returns: {position of a lease asked about that is lost...}, {id, token, claimed}... held but not asked about, oldest
-- claim first, ms until something is due or -1, {id, token, body of its end}... to be cancelled, of those asked about,
-- 1 when it holds something and the queue is paused; only if there is one, the map of the queue's partitions that is
-- noted here
-- Invariant: nothing but silence ends a lease here. Sending it again is harmless by nature.
--@include begin back duework orphaned
local config, worker = cjson.decode(ARGV[1]), ARGV[2]
local held_key = key('held:' .. worker)
local paused, map = unpack(call('HMGET', key('settings'), 'paused', 'map'), 1, 2)
allow_when_full()
local time = clock()

local found, held, tokens = call('HGETALL', held_key), {}, {}
for i = 1, #found, 2 do
  local token, claimed = string.match(found[i + 1], '^(%d+) (%d+)')
  if token then held[#held + 1], tokens[found[i]] = { found[i], token, claimed }, token end
end
if #found > 0 then
  call('ZADD', key('holders'), time + config.lease, worker)
  call('ZREM', key('suspects'), worker)
end
local _, _, next_ms = run_due(config, time, @TEND_LIMIT@, worker)
local lost, orphaned, known = compare(time, held)
table.sort(orphaned, function(a, b) return tonumber(a[2]) < tonumber(b[2]) end)
local asked = {}
if #held > 0 and call('EXISTS', key('cancelling')) == 1 then
  for id in pairs(known) do
    local body = call('HGET', key('cancelling'), id)
    if body then asked[#asked + 1] = { id, tokens[id], body } end
  end
end
return { lost, orphaned, next_ms, asked, #held > 0 and paused and 1 or 0, map or nil }
