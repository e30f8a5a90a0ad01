-- heartbeat: keep all leases that a worker holds on a queue, and do what is due.
-- KEYS[1] prefix
-- ARGV config worker (id token)...
-- Returns: {position of a lease asked about that is lost...}, {id, token, claimed}... held but not asked about, oldest claim
-- first, ms until something is due or -1, {id, token, body of its end}... to be cancelled, of those asked about, 1 when it
-- holds something and the queue is paused
-- Invariant: nothing but silence ends a lease here. Sending it again is harmless by nature.
--@include begin back duework
local config, worker = cjson.decode(ARGV[1]), ARGV[2]
local held_key = key('held:' .. worker)
allow_when_full()
local time = clock()

-- What it holds, as ids and claims in turns, and their tokens by id.
local held, tokens = call('HGETALL', held_key), {}
for i = 1, #held, 2 do tokens[held[i]] = string.match(held[i + 1], '^%d+') end
if #held > 0 then
  call('ZADD', key('holders'), time + config.lease, worker)
  call('ZREM', key('suspects'), worker)
end
local _, _, next_ms = run_due(config, time, @TEND_LIMIT@, worker)
local lost, strays, known = {}, {}, {}
for i = 3, #ARGV, 2 do
  if tokens[ARGV[i]] ~= ARGV[i + 1] then
    lost[#lost + 1] = (i - 3) / 2
  else
    known[ARGV[i]] = true
  end
end
-- A claim younger than two heartbeats may still be on its way to the worker. One of a time to come is from before the clock was
-- set back.
for i = 1, #held, 2 do
  local id = held[i]
  if not known[id] and #strays < 100 then
    local token, claimed = string.match(held[i + 1], '^(%d+) (%d+)')
    local age = token and time - tonumber(claimed)
    if age and (age >= 2 * @BEAT_MS@ or age < 0) then
      strays[#strays + 1] = { id, token, claimed }
    end
  end
end
table.sort(strays, function(a, b)
  return tonumber(a[2]) < tonumber(b[2])
end)
local asked = {}
if #held > 0 and call('EXISTS', key('cancelling')) == 1 then
  for id in pairs(known) do
    local body = call('HGET', key('cancelling'), id)
    if body then asked[#asked + 1] = { id, tokens[id], body } end
  end
end
local paused = #held > 0 and call('HEXISTS', key('settings'), 'paused') or 0
return { lost, strays, next_ms, asked, paused }
