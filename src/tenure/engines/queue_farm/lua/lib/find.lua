-- lib find: what original clients did since. They write only their own keys, so the scripts compare these with the
-- index.
--@include back

-- Look at a lane in which an original client was at work.
local function recheck(config, time, lane, text)
  local seen, sum, fetched = string.match(text, '^(%d+) (%d+) (.*)$')
  local _, active = lengths_of(lane)
  if active and active > 0 then
    local now = redis.pcall('GET', fetch_key(lane))
    if not seen or (type(now) == 'string' and now or '') ~= fetched or time < tonumber(seen) then
      observe(config, time, lane)
      return
    end
    -- By this clock the batch has not changed in the time that its jobs may take together: it has stalled.
    if time - tonumber(seen) < tonumber(sum) then return end
    local ids = call('LRANGE', active_key(lane), 0, -1)
    call('DEL', active_key(lane))
    for _, id in ipairs(ids) do call('RPUSH', queue_key(lane), id) end
    place(config, time, lane, true)
    return
  end
  place(config, time, lane)
end

-- Whether it is time to look again, for all workers together. Where none was about, the index has a time to live: see
-- lib farm.
local function may_look(config, time)
  local last = tonumber(call('HGET', key('meta'), 'found') or nil) or 0
  if time >= last and time - last < config.find then return false end
  if time < last or time - last >= @PRESENCE_TTL_MS@ then
    for _, suffix in ipairs({ 'known', 'ready', 'meta' }) do call('PERSIST', key(suffix)) end
  end
  return true
end

-- Split lanes into those without jobs and the others. If one is empty, many are, so the script asks about all at once.
local function split_empty(lanes)
  local empty, others = {}, {}
  for first = 1, #lanes, @TOGETHER@ do
    local last, keys = math.min(#lanes, first + @TOGETHER@ - 1), {}
    for n = first, last do keys[#keys + 1], keys[#keys + 2] = queue_key(lanes[n]), active_key(lanes[n]) end
    local all = call('EXISTS', unpack(keys)) == 0
    for n = first, last do
      local list = (all or call('EXISTS', queue_key(lanes[n]), active_key(lanes[n])) == 0) and empty or others
      list[#list + 1] = lanes[n]
    end
  end
  return empty, others
end

local function forget_fetches(lanes)
  for n, lane in ipairs(lanes) do lanes[n] = fetch_key(lane) end
  if #lanes > 0 then call('DEL', unpack(lanes)) end
end

-- Look again at lanes that were dropped: an original worker that polled one late has written its fetchAt, and one that
-- failed late has returned its jobs without an entry in `active`. Returns how many.
local function sweep_dropped(config, time, limit)
  local lanes = call('ZRANGEBYSCORE', key('dropped'), '-inf', time - @DROPPED_MS@, 'LIMIT', 0, limit)
  if #lanes == 0 then return 0 end
  call('ZREM', key('dropped'), unpack(lanes))
  local empty, others = split_empty(lanes)
  for _, lane in ipairs(others) do
    if call('SISMEMBER', key('known'), lane) == 0 then place(config, time, lane) end
  end
  forget_fetches(empty)
  return #lanes
end

-- Take in the lanes that original producers made active. Those without jobs are left to no client. A lane with a batch
-- of Tenure's is among them when the index has expired: that batch is no original's.
local function take_in(config, time, news)
  local lanes, drops = {}, {}
  for n = 1, math.min(#news, @NEWS_MOST@) do lanes[n] = news[n] end
  local empty, others = split_empty(lanes)
  local claimed = #others > 0 and call('HMGET', key('claims'), unpack(others)) or {}
  for n, lane in ipairs(others) do
    if claimed[n] then call('SADD', key('known'), lane) else place(config, time, lane) end
  end
  if #empty == 0 then return end
  for _, lane in ipairs(empty) do drops[#drops + 1], drops[#drops + 2] = time, lane end
  call('SREM', wire('active'), unpack(empty))
  call('ZADD', key('dropped'), unpack(drops))
  forget_fetches(empty)
end

-- Compare the index with the wire.
local function find_news(config, time)
  if not may_look(config, time) then return end
  call('HSET', key('meta'), 'found', time)
  local news, foreign = call('SDIFF', wire('active'), key('known')), call('HLEN', key('foreign'))
  if #news == 0 and foreign == 0 then return end
  check_types()
  call('HSET', key('meta'), 'originals', time)
  take_in(config, time, news)
  if foreign == 0 then return end
  -- The lanes of originals in pages: each call continues where the one before ended.
  local cursor = string.match(call('HGET', key('meta'), 'cursor') or '', '^%d+$') or '0'
  local page = call('HSCAN', key('foreign'), cursor, 'COUNT', @FOREIGN_LOOK@)
  for i = 1, #page[2], 2 do recheck(config, time, page[2][i], page[2][i + 1]) end
  call('HSET', key('meta'), 'cursor', page[1])
end
