-- limit: one limit, as Redis knows it.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV name
-- Returns: {what is stored or '', its state or '', places that are held, {queue's prefix, lanes that wait, their
-- jobs...}, now in ms, the numbers that the code of a job gave that runs or waits, or '', {queue's prefix, id, worker,
-- since in ms of jobs that hold places...}}. The jobs of the first MAX_GATES lanes of a queue count.
-- Invariant: changes nothing.
--@include begin holding
local name, waiting = ARGV[1], {}
local numbers = call('HGET', key('used'), name)

-- The jobs of an internal lane have the same limits, which its name has: see lib shape.
local function numbers_in(lane)
  for found, text in string.gmatch(lane, '([^@,:]+):%d+:(%d*:%d*:%d*)') do
    if found == name then return text end
  end
end

for n, queue in ipairs(call('SMEMBERS', key('gates:' .. name))) do
  if n > @MAX_GATES@ then break end
  local gate, jobs = queue .. ':gate:' .. name, 0
  for _, lane in ipairs(call('ZRANGE', gate, 0, @MAX_GATES@ - 1)) do
    jobs = jobs + call('LLEN', queue .. ':lane:' .. lane)
    numbers = numbers or string.byte(lane) == 64 and numbers_in(lane)
  end
  waiting[#waiting + 1], waiting[#waiting + 2], waiting[#waiting + 3] = queue, call('ZCARD', gate), jobs
end
local holders = {}
for queue, claimed in pairs(places_taken(key('places:' .. name))) do
  for _, job in ipairs(jobs_holding(queue, claimed, @HOLDERS_SHOWN@)) do
    holders[#holders + 1] = queue
    for _, word in ipairs(job) do holders[#holders + 1] = word end
  end
end
local stored, state = call('HGET', key('limits'), name), call('GET', key('limit:' .. name))
return { stored or '', state or '', call('SCARD', key('places:' .. name)), waiting, (clock()), numbers or '', holders }
