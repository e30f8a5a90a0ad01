-- maintain: take back the batches of dead workers, prune records, and open lanes for the tasks that a worker offers.
-- KEYS[1] prefix
-- ARGV config limit meta_ttl_ms task...
-- Returns: {reclaimed, pruned, unparked, 1 when there is more}
-- Invariant: at most `limit` of each, but whole batches. Sending it again is harmless by nature.
--@include begin find silence
local config, limit, meta_ttl_ms = cjson.decode(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
allow_when_full()
check_types()
local time = clock()
local amnesty, before = note_activity(config, time)
if not amnesty then return newer_layout_error() end
local reclaimed, _, rest = reap(config, time, amnesty, before, limit)
find_news(config, time)
local pruned = 0
for _, state in ipairs({ 'failed', 'broken', 'cancelled' }) do
  for _, id in ipairs(call('ZRANGEBYSCORE', key(state), '-inf', time, 'LIMIT', 0, limit - pruned)) do
    forget_ended(state, id)
    count('trimmed_' .. state)
    pruned = pruned + 1
  end
end
local offered, unparked = {}, 0
for i = 4, #ARGV do offered['task ' .. ARGV[i]] = true end
local parked = call('HGETALL', key('parked'))
for i = 1, #parked, 2 do
  local mended = parked[i + 1] == 'spoiled' and lengths_of(parked[i])
  if (offered[parked[i + 1]] or mended) and unparked < limit then
    call('HDEL', key('parked'), parked[i])
    place(config, time, parked[i])
    unparked = unparked + 1
  end
end
-- Lanes that original clients emptied.
local gone = call('SDIFF', key('known'), wire('active'))
for n = 1, math.min(#gone, limit) do
  if not call('HGET', key('claims'), gone[n]) then place(config, time, gone[n]) end
end
-- Batches of a worker that holds nothing: another program damaged its leases. What is active there counts as an
-- original client's.
local page =
  call('HSCAN', key('claims'), string.match(call('HGET', key('meta'), 'claimed') or '', '^%d+$') or '0', 'COUNT', limit)
if page[1] == '0' then
  call('HDEL', key('meta'), 'claimed')
else
  call('HSET', key('meta'), 'claimed', page[1])
end
for n = 1, #page[2], 2 do
  local batch = batch_of(page[2][n])
  if not batch or call('EXISTS', key('held:' .. batch.worker)) == 0 then
    call('HDEL', key('claims'), page[2][n])
    place(config, time, page[2][n])
  end
end
local swept = sweep_dropped(config, time, limit)
if call('EXISTS', key('known'), key('kept')) > 0 then
  call('PERSIST', key('meta'))
else
  call('PEXPIRE', key('meta'), meta_ttl_ms)
end
return { reclaimed, pruned, unparked, (rest or pruned == limit or swept == limit) and 1 or 0 }
