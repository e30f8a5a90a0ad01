-- lib find: what original clients did meanwhile. They write only their own keys, so those are compared with the index.
--@include back

-- Look at a lane in which an original client was at work.
local function recheck(config, time, lane, text)
  local seen, sum, fetched = string.match(text, '^(%d+) (%d+) (.*)$')
  local _, active = lengths_of(lane)
  if active and active > 0 then
    local now = redis.pcall('GET', fetch_key(lane))
    if (type(now) == 'string' and now or '') ~= fetched or time < tonumber(seen) then
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

-- Whether it is time to look again, for all workers together.
local function may_look(config, time)
  local last = tonumber(call('HGET', key('meta'), 'found') or 0)
  return time < last or time - last >= config.find
end

-- Look again at lanes that were dropped: an original worker that polled one late has written its fetchAt, and one that failed late
-- has returned its jobs without an entry in `active`. Answers how many.
local function sweep_dropped(config, time, limit)
  local lanes = call('ZRANGEBYSCORE', key('dropped'), '-inf', time - @DROPPED_MS@, 'LIMIT', 0, limit)
  for _, lane in ipairs(lanes) do
    call('ZREM', key('dropped'), lane)
    local waiting, active = lengths_of(lane)
    if call('SISMEMBER', key('known'), lane) == 0 and waiting then
      if waiting + active > 0 then place(config, time, lane) else call('DEL', fetch_key(lane)) end
    end
  end
  return #lanes
end

-- Compare the index with the wire.
local function find_news(config, time)
  if not may_look(config, time) then return end
  call('HSET', key('meta'), 'found', time)
  local news, foreign = call('SDIFF', wire('active'), key('known')), call('HLEN', key('foreign'))
  if #news == 0 and foreign == 0 then return end
  check_types()
  call('HSET', key('meta'), 'originals', time)
  for n = 1, math.min(#news, @NEWS_MOST@) do place(config, time, news[n]) end
  if foreign == 0 then return end
  -- The lanes of originals in pages: each call continues where the one before ended.
  local cursor = call('HGET', key('meta'), 'cursor') or '0'
  local page = call('HSCAN', key('foreign'), cursor, 'COUNT', @FOREIGN_LOOK@)
  for i = 1, #page[2], 2 do recheck(config, time, page[2][i], page[2][i + 1]) end
  call('HSET', key('meta'), 'cursor', page[1])
end
