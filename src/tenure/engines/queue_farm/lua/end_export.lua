-- end_export: forget the jobs of a move that arrived, and return the others to their lanes.
-- KEYS[1] prefix
-- ARGV move letters config
-- Returns: 1, or 0 when this move has ended before
-- Invariant: `letters` has one for each job: 1 it arrived; 0 it was refused, and goes to the end of its lane; b the
-- whole move was refused, and it is again at the front. Sending it again is harmless by nature.
--@include begin back
local move, letters, config = ARGV[1], ARGV[2], cjson.decode(ARGV[3])
allow_when_full()
check_types()
local kept, time = call('LRANGE', key('moving'), 0, -1), clock()
if kept[1] ~= move then return 0 end

local function requeue(n, command)
  local id, row = kept[2 * n + 2], cmsgpack.unpack(kept[2 * n + 3])
  local lane = row[10]
  call('HSET', job_key(id), 'data', row[3], 'queuedAt', row[6], 'timeout', row[7], 'maxAttempts', row[8], 'attempts',
    row[4] + row[5],
    'tenure:crashes', row[5], 'tenure:own', row[9], 'tenure:lane', lane)
  call(command, queue_key(lane), id)
  if not batch_of(lane) then place(config, time, lane) end
end

for n = 1, #letters do
  if string.sub(letters, n, n) == '0' then requeue(n, 'LPUSH') end
end
for n = #letters, 1, -1 do
  if string.sub(letters, n, n) == 'b' then requeue(n, 'RPUSH') end
end
call('DEL', key('moving'))
if string.find(letters, 'b', 1, true) then call('HDEL', key('meta'), 'hold') end
return 1
