-- lib farm: the keys of original clients, and the place of a lane. `prefix` is <namespace>:tenure.
--@include types
local base = string.sub(prefix, 1, -#':tenure' - 1)

local function wire(suffix) return base .. ':' .. suffix end
local function queue_key(lane) return base .. ':queue:' .. lane end
local function active_key(lane) return base .. ':active:' .. lane end
local function fetch_key(lane) return base .. ':active:' .. lane .. ':fetchAt' end
local function job_key(id) return base .. ':job:' .. id end

-- Wake one worker that waits. One wake-up is kept at most.
local function wake_one()
  if call('EXISTS', key('wake')) == 0 then call('RPUSH', key('wake'), '1') end
end

-- How many jobs of a lane wait, and how many are active. Nil when another program's data is in their place.
local function lengths_of(lane)
  local waiting, active = redis.pcall('LLEN', queue_key(lane)), redis.pcall('LLEN', active_key(lane))
  if type(waiting) == 'table' or type(active) == 'table' then return nil end
  return waiting, active
end

-- The lanes that this call found spoiled, by the key that holds another program's data.
local spoiled = {}

-- The key of a lane that holds another program's data.
local function spoiled_key(lane)
  return type(redis.pcall('LLEN', queue_key(lane))) == 'table' and queue_key(lane) or active_key(lane)
end

-- The ids of the active batch; none where another program's data is in its place.
local function active_ids(lane)
  local ids = redis.pcall('LRANGE', active_key(lane), 0, -1)
  return ids.err and {} or ids
end

-- Whether a lane is closed to Tenure workers: parked, or with a name that gives it the keys of another lane.
local function is_closed(lane)
  return call('HEXISTS', key('parked'), lane) == 1 or string.sub(lane, -8) == ':fetchAt'
end

-- Let a lane take its turn: behind all others, or before them.
local function add_turn(lane, front)
  local field, step = front and 'front' or 'turn', front and -1 or 1
  local turn = redis.pcall('HINCRBY', key('meta'), field, step)
  if type(turn) ~= 'number' then
    call('HSET', key('meta'), field, step) -- another program wrote it
    turn = step
  end
  call('ZADD', key('ready'), turn, lane)
  wake_one()
end

-- Forget a lane without jobs, in the same step for all clients. An original worker may be about to fetch from it, so it
-- is looked at again: see lib find.
local function drop_lane(time, lane)
  if call('HEXISTS', key('meta'), 'originals') == 1 then call('ZADD', key('dropped'), time, lane) end
  call('SREM', wire('active'), lane)
  call('SREM', key('known'), lane)
  call('ZREM', key('ready'), lane)
  call('HDEL', key('foreign'), lane)
  call('DEL', fetch_key(lane))
end

-- Note the batch of an original client in this lane: when it was fetched, when it was first seen here, and after how
-- long it has stalled.
local function observe(config, time, lane)
  local sum = 0
  for _, id in ipairs(call('LRANGE', active_key(lane), 0, @FOREIGN_BATCH@ - 1)) do
    local timeout = redis.pcall('HGET', job_key(id), 'timeout')
    sum = sum + (tonumber(type(timeout) == 'string' and timeout or nil) or 0)
  end
  if sum <= 0 then sum = config.default_timeout end
  local fetched = redis.pcall('GET', fetch_key(lane))
  call('HSET', key('foreign'), lane, time .. ' ' .. digits(sum) .. ' ' .. (type(fetched) == 'string' and fetched or ''))
  call('ZREM', key('ready'), lane)
end

-- While no Tenure worker is about, nothing removes the lanes that originals empty. So `known` and `ready` expire then,
-- at one moment. A worker finds the lanes in `active`, as the lanes of original producers.
local function bound_index(time)
  local found = tonumber(call('HGET', key('meta'), 'found') or nil)
  if found and time - found < @PRESENCE_TTL_MS@ or call('PTTL', key('known')) >= 0 then return end
  for _, suffix in ipairs({ 'known', 'ready', 'wake' }) do
    call('PEXPIREAT', key(suffix), digits(time + @INDEX_TTL_MS@))
  end
  call('PEXPIRE', key('meta'), @META_TTL_MS@)
end

-- Put a lane where it belongs: no batch of Tenure's is active in it. Returns whether it may run now.
local function place(config, time, lane, front)
  local waiting, active = lengths_of(lane)
  if not waiting then
    if call('HSET', key('parked'), lane, 'spoiled') == 1 then
      spoiled[#spoiled + 1] = { spoiled_key(lane), lane, 'spoiled' }
    end
    call('ZREM', key('ready'), lane)
    return false
  end
  if waiting + active == 0 then
    drop_lane(time, lane)
    return false
  end
  call('SADD', wire('active'), lane)
  call('SADD', key('known'), lane)
  if active > 0 then
    observe(config, time, lane)
    return false
  end
  call('HDEL', key('foreign'), lane)
  if is_closed(lane) then return false end
  if call('ZSCORE', key('ready'), lane) and not front then
    wake_one()
  else
    add_turn(lane, front)
  end
  return true
end
