-- cancel: end jobs that wait.
-- KEYS[1] prefix
-- ARGV session number config body id...
-- Returns: how many were cancelled. Without ids: of all that wait.
-- Invariant: running jobs are left alone.
--@include begin answers jobs
local session, number, body = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
allow_when_full()
local again = recall(session, number)
if again then return again end
check_types()
local ids = { unpack(ARGV, 5) }
if #ids == 0 then
  for _, state in ipairs({ 'ready', 'scheduled' }) do
    for _, id in ipairs(call('ZRANGE', key(state), 0, -1)) do
      ids[#ids + 1] = id
    end
  end
end
local cancelled, time = 0, clock()
for _, id in ipairs(ids) do
  local job = job_of(id)
  if job and (job.state == 'ready' or job.state == 'scheduled') then
    finish(config, time, id, job, 'cancelled', body)
    cancelled = cancelled + 1
  end
end
return remember(session, number, tostring(cancelled))
