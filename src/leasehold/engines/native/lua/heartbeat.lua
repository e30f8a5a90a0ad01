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

-- What it holds, as ids and claims in turns; their tokens by id; and whether one of them is past its deadline.
local function look()
  local held, tokens, overdue = call('HGETALL', held_key), {}, false
  for i = 1, #held, 2 do
    local token, deadline = string.match(held[i + 1], '^(%d+) (%d+) %d+')
    tokens[held[i]], deadline = token, tonumber(deadline) or 0
    overdue = overdue or deadline > 0 and deadline <= time
  end
  return held, tokens, overdue
end

local held, tokens, late = look()
local rest = false
if #held > 0 then
  call('ZADD', key('holders'), time + config.lease, worker)
  call('ZREM', key('suspects'), worker)
  if late then
    local overdue = {}
    collect(overdue, worker, true, time)
    rest = select(2, give_back(config, time, { worker }, overdue))
    held, tokens = look()
  end
end
local _, _, next_ms = tend(config, time, config.tend, worker)
local lost, strays, known = {}, {}, {}
for i = 3, #ARGV, 2 do
  if tokens[ARGV[i]] ~= ARGV[i + 1] then
    lost[#lost + 1] = (i - 3) / 2
  else
    known[ARGV[i]] = true
  end
end
-- A claim younger than two beats may still be on its way to the worker.
for i = 1, #held, 2 do
  local id = held[i]
  if not known[id] and #strays < 100 then
    local token, claimed = string.match(held[i + 1], '^(%d+) %d+ (%d+)')
    if token and time - tonumber(claimed) >= 2 * @BEAT_MS@ then
      strays[#strays + 1] = { id, token, claimed }
    end
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
return { lost, strays, rest and 0 or next_ms, asked }
