-- heartbeat: keep what a worker holds, find what it lost, and do the work that is due.
-- KEYS[1] prefix
-- ARGV config worker (pid token)...
-- Returns: {position of a lease asked about that is lost...}, {pid, token, claimed}... held but not asked about, ms until more
-- is due or -1, {pid, token, body of the cancel request}... of those asked about, 0
-- Invariant: a process whose list is gone was taken away by another client, and is lost. All others are in
-- `workingProcesses` and their worker has a timer. Sending it again is harmless.
--@include duework orphaned
local config, worker = cjson.decode(ARGV[1]), ARGV[2]
local held_key = key('held:' .. worker)
allow_when_full()
check_types()
local time = clock()
local pids, jobs, held, by_hand = call('ZRANGE', held_key, 0, -1), {}, {}, false
for _, pid in ipairs(pids) do
  local job = job_of(pid)
  if not job or job.s ~= 'active' or job.w ~= worker then
    call('ZREM', held_key, pid)
  elseif call('EXISTS', process_key(pid)) == 0 then
    lose(time, pid, job)
  else
    held[#held + 1] = { pid, digits(job.n), tostring(job.t) }
    jobs[pid], by_hand = job, by_hand or job.k == 'h'
    call('SADD', working, pid) -- an original may have emptied the set
  end
end
if #held > 0 then
  call('ZADD', key('holders'), time + config.lease, worker)
  call('ZREM', key('suspects'), worker)
  appear(worker, { queue }, time, config.timer)
end
retire(worker)
local _, _, next_ms = run_due(config, time, @TEND_LIMIT@, worker)
local lost, orphaned, known = compare(time, held)
local wishes = {}
for _, lease in ipairs(held) do
  local body = jobs[lease[1]].x
  if body and known[lease[1]] then wishes[#wishes + 1] = { lease[1], lease[2], body } end
end
return { lost, orphaned, next_ms, wishes, 0 }
