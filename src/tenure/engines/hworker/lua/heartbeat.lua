-- heartbeat: keep what a worker holds, find what it lost, and do the work that is due.
-- KEYS[1] prefix
-- ARGV config worker (id token)...
-- Returns: {position of a lease asked about that is lost...}, {id, token, claimed}... held but not asked about, ms until more
-- is due or -1
-- Invariant: the jobs that the worker holds have just started, for the originals' monitors. A job whose entry has
-- another time, or that is in the list, was taken by another client, and is lost. An entry that was removed is written again. Sending it again is harmless.
--@include duework orphaned
local config, worker = cjson.decode(ARGV[1]), ARGV[2]
local held_key = key('held:' .. worker)
allow_when_full()
check_types()
local time, micros = clock()
local held = {}
for _, id in ipairs(call('ZRANGE', held_key, 0, -1)) do
  local job = job_of(id)
  if not job or job.s ~= 'active' or job.w ~= worker then
    call('ZREM', held_key, id)
  elseif not is_still_held(job) then
    lose(id, job)
  else
    held[#held + 1] = { id, digits(job.n), tostring(job.t) }
    job.v = stamp(micros, job.n)
    call('HSET', progress, job.d, job.v)
    save(id, job)
  end
end
if #held > 0 then
  call('ZADD', key('holders'), time + config.lease, worker)
  call('ZREM', key('suspects'), worker)
end
retire(worker)
local _, _, next_ms = run_due(config, time, @TEND_LIMIT@, worker)
local lost, orphaned = compare(time, held)
return { lost, orphaned, next_ms }
