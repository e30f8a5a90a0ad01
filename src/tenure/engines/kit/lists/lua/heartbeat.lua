-- heartbeat: keep what a worker holds, find what it lost, and do the work that is due.
-- KEYS[1] prefix
-- ARGV config worker (id token)...
-- Returns: {position of a lease asked about that is lost...}, {id, token, claimed}... held but not asked about, ms
-- until more is due or -1, {id, token, body of the cancel request}... of those asked about, 0
-- Invariant: a job that another client took away is lost. For originals all others have just started. Sending it again
-- is harmless.
--@include duework orphaned
local config, worker = cjson.decode(ARGV[1]), ARGV[2]
local held_key = key('held:' .. worker)
allow_when_full()
check_types()
local time, micros = clock()
local jobs, leases = {}, {}
for _, id in ipairs(call('ZRANGE', held_key, 0, -1)) do
  local job = records.of(id)
  if not job or job.s ~= 'active' or job.w ~= worker then
    call('ZREM', held_key, id)
  elseif not is_still_held(id, job) then
    lose(time, id, job)
  else
    leases[#leases + 1] = { id, digits(job.n), tostring(job.t) }
    jobs[id] = job
    held.prolong(id, job, micros)
  end
end
if #leases > 0 then
  call('ZADD', key('holders'), time + config.lease, worker)
  call('ZREM', key('suspects'), worker)
  held.show_worker(worker, time, config.timer)
end
retire(worker)
local _, _, next_ms = run_due(config, time, @TEND_LIMIT@, worker)
local lost, orphaned, known = compare(time, leases)
local wishes = {}
for _, lease in ipairs(leases) do
  local body = jobs[lease[1]].x
  if body and known[lease[1]] then wishes[#wishes + 1] = { lease[1], lease[2], body } end
end
return { lost, orphaned, next_ms, wishes, 0 }
