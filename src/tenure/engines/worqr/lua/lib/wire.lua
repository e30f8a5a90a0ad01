-- lib wire: our workers as originals see them: in `workers` and `expiringWorkers`, with a timer and the set of their
-- queues. Originals use a worker's id in patterns, so characters of patterns are escaped in it.
--@include names
local function wire_id(worker)
  return (string.gsub(worker, '[%%*?%[%]\\^]', function(char) return string.format('%%%02X', string.byte(char)) end))
end

local function timer_key(id) return base .. ':workerTimers:' .. id end
local function queues_key(id) return base .. ':workingQueues:' .. id end

-- Renew the timer of a worker. PEXPIRE comes first: at the memory limit Redis refuses SET. False: the timer had
-- expired, so that originals may have failed the worker.
local function renew_timer(id, ms) return call('PEXPIRE', timer_key(id), ms) == 1 end

-- List a worker as serving this queue, or `queues`, for `ms` from now. The timer never becomes shorter.
local function appear(worker, time, ms, queues)
  local id = wire_id(worker)
  ms = math.max(ms, call('PTTL', timer_key(id)))
  if not renew_timer(id, ms) then call('SET', timer_key(id), 'RUN', 'PX', ms) end
  call('SADD', base .. ':workers', id)
  call('SADD', base .. ':expiringWorkers', id)
  if not queues or #queues > 0 then call('SADD', queues_key(id), unpack(queues or { queue })) end
  call('ZADD', shared_key('wire'), time + ms, id)
  call('PEXPIRE', shared_key('wire'), @META_TTL_MS@)
end

local function disappear(id)
  call('DEL', timer_key(id), queues_key(id))
  call('SREM', base .. ':workers', id)
  call('SREM', base .. ':expiringWorkers', id)
  call('ZREM', shared_key('wire'), id)
end

-- Remove workers of Tenure after their announcement ended: originals would fail each of them, and with it all processes
-- of its queues.
local function remove_silent(time)
  local gone = call('ZRANGEBYSCORE', shared_key('wire'), '-inf', time, 'LIMIT', 0, 10)
  for _, id in ipairs(gone) do disappear(id) end
end
