-- retry: put a job that failed, broke or was cancelled at the end of its lane, its counts from zero.
-- KEYS[1] prefix
-- ARGV session number config id edited data
-- Returns: 1, or 0 when there is no such record
-- Invariant: its record is gone, and it is once in its lane.
--@include begin answers back transition
local session, number, id, edited, data = ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local kept = kept_of(id)
if not kept then return remember(session, number, '0') end
local lane = kept['tenure:lane']
if not lengths_of(lane) then return redis.error_reply('TNKEY ' .. spoiled_key(lane)) end
call('HLEN', job_key(id))
forget_kept(id, kept)
local fields = { 'data', edited == '1' and data or kept.data }
for _, field in ipairs({ 'queuedAt', 'timeout', 'maxAttempts', 'tenure:own', 'tenure:lane' }) do
  if kept[field] then fields[#fields + 1], fields[#fields + 2] = field, kept[field] end
end
call('HSET', job_key(id), unpack(fields))
call('LPUSH', queue_key(lane), id)
if not batch_of(lane) then place(config, clock(), lane) end
return remember(session, number, '1')
