-- heartbeat: keep all leases that a worker holds on a queue, take back what it holds past a deadline, and do what is due.
-- KEYS[1] prefix
-- ARGV config worker (id token)...
-- Returns: {position of a lease asked about that is lost...}, {id, token, claimed}... held but not asked about, ms until
-- something is due or -1, {id, token, body of its end}... to be cancelled, of those asked about
-- Invariant: nothing but silence or a deadline ends a lease here. Sending it again is harmless by nature.
--@include begin config back silence tend
local config, worker = configure(ARGV[1]), ARGV[2]
local held_key = key('held:' .. worker)
allow_when_full()
local time = clock()
if call('EXISTS', held_key) == 1 then
  call('ZADD', key('holders'), time + config.lease, worker)
  call('ZREM', key('suspects'), worker)
  local overdue = {}
  collect(overdue, worker, true, time)
  give_back(config, time, { worker }, overdue)
end
local _, _, next_ms = tend(config, time, config.tend, worker)
local held = call('HGETALL', held_key)
local tokens, known = {}, {}
for i = 1, #held, 2 do
  tokens[held[i]] = string.match(held[i + 1], '^(%d+)')
end
local lost, strays = {}, {}
for i = 3, #ARGV, 2 do
  if tokens[ARGV[i]] ~= ARGV[i + 1] then
    lost[#lost + 1] = (i - 3) / 2
  else
    known[ARGV[i]] = true
  end
end
-- A claim younger than two beats may still be on its way to the worker.
for i = 1, #held, 2 do
  local id, token, claimed = held[i], string.match(held[i + 1], '^(%d+) %d+ (%d+)')
  if not known[id] and token and time - tonumber(claimed) >= 2 * @BEAT_MS@ and #strays < 100 then
    strays[#strays + 1] = { id, token, claimed }
  end
end
local asked = {}
if #held > 0 and call('EXISTS', key('cancelling')) == 1 then
  for id in pairs(known) do
    local body = call('HGET', key('cancelling'), id)
    if body then
      asked[#asked + 1] = { id, tokens[id], body }
    end
  end
end
return { lost, strays, next_ms, asked }
