-- enqueue: add jobs to the ends of their lanes.
-- KEYS[1] prefix
-- ARGV session number config manager (id lane data timeout maxAttempts own)...
-- Returns: a string of one character a job: 1 added, 0 the id exists
-- Invariant: a job that was added is in its hash and once in its lane; the lane is in `active`.
--@include begin answers jobs layout
local session, number, manager = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
local again = recall(session, number)
if again then return again end
check_types()
local letters, time, lanes, order = {}, clock(), {}, {}
for i = 5, #ARGV, 6 do
  local lane = ARGV[i + 1]
  if not lanes[lane] and not lengths_of(lane) then
    return redis.error_reply('TNKEY ' .. spoiled_key(lane))
  end
  if not lanes[lane] then lanes[lane], order[#order + 1] = true, lane end
end
local now = digits(time)
for i = 5, #ARGV, 6 do
  local id, lane = ARGV[i], ARGV[i + 1]
  local there = call('EXISTS', job_key(id)) == 1 or call('HEXISTS', key('kept'), id) == 1
  letters[#letters + 1] = there and '0' or '1'
  if not there then
    call('HSET', job_key(id), 'queuedAt', now, 'data', ARGV[i + 2], 'maxAttempts', ARGV[i + 4], 'timeout', ARGV[i + 3],
      'managerId', manager, 'tenure:lane', lane, 'tenure:own', ARGV[i + 5])
    call('LPUSH', queue_key(lane), id)
  end
end
local is_new = false
for _, lane in ipairs(order) do
  call('SADD', wire('active'), lane)
  local added = call('SADD', key('known'), lane)
  if added == 1 or call('ZSCORE', key('ready'), lane) then place(config, time, lane) end
  is_new = is_new or added == 1
end
if is_new then bound_index(time) end
note_layout()
return remember(session, number, table.concat(letters))
