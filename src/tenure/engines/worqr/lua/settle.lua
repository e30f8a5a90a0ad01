-- settle: end processes of one worker, each with its own outcome. A process that the worker has lost changes nothing.
-- KEYS[1] prefix
-- ARGV session number config worker (pid token kind ms task body md5)...
-- kind: c completed, p a round of a persistent job, r retry, l released, k crashed, u unroutable, f failed, b broken, x cancelled.
-- ms: the delay of a retry. body: an error, or the result as JSON. md5: of the task, for its marker.
-- Returns: a string of one character for each settlement: 1 settled, 0 lost.
-- Invariant: a settled process has left `processes` and `workingProcesses`. Its task is nowhere (c), in the queue (l, k and u of a raw task at the
-- right end; r without delay and p at the left end), or in a record beside the wire. The marker of a task that ended is gone.
--@include back remember passing
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
--@include transition
local time = clock()
local letters, front, retried, raw, woken = {}, {}, {}, {}, 0
local ENDS = { f = 'failed', b = 'broken', x = 'cancelled' }

local function publish_done(task, body)
  local message = '{"workerId":' .. cjson.encode(wire_id(worker)) .. ',"task":' .. cjson.encode(task)
  call('PUBLISH', base .. '_' .. queue .. '_done', message .. (body ~= '' and ',"result":' .. body or '') .. '}')
end

local function to_the_end(pid, job, data)
  keep_counts(time, job)
  forget(pid, job)
  call('LPUSH', waiting, data)
  end_process(pid)
  woken = woken + 1
end

local function complete(pid, job, data, body, md5)
  forget(pid, job)
  end_process(pid)
  free(md5)
  call('HINCRBY', key('meta'), 'completed', 1)
  publish_done(data, body)
end

-- A retry waits on our side: originals requeue any process that they can see. Retries that are due at the same moment run in
-- the order of their claims.
local function schedule(pid, job, data, ms, part)
  set_aside(pid, job, data, 'scheduled')
  call('ZADD', key('scheduled'), string.format('%.17g', time + ms + part / 4096), pid)
end

local function park(pid, job, data, task)
  job.task = task
  set_aside(pid, job, data, 'unroutable')
  call('ZADD', key('unroutable:' .. task), job.n, pid)
  call('SADD', key('unroutable'), task)
end

local function settle(pid, job, data, kind, ms, task, body, md5)
  if job.x and (kind == 'p' or kind == 'r' or kind == 'u') then
    job.m = free(md5)
    finish(config, time, pid, job, data, 'cancelled', job.x)
  elseif kind == 'c' then
    complete(pid, job, data, body, md5)
  elseif kind == 'p' then
    job.f, job.c, job.u, job.e = 0, 0, 0, nil
    call('HINCRBY', key('meta'), 'rounds', 1)
    to_the_end(pid, job, data)
  elseif kind == 'r' then
    job.f, job.e = job.f + 1, body
    call('HINCRBY', key('meta'), 'retried', 1)
    retried[#retried + 1] = { pid, job, data, ms }
  elseif kind == 'u' and task == '*' then
    keep_counts(time, job)
    forget(pid, job)
    end_process(pid)
    raw[#raw + 1] = { job.n, data }
    woken = woken + 1
  elseif kind == 'u' then
    park(pid, job, data, task)
  else
    job.f = job.f + (kind == 'f' and 1 or 0)
    job.m = free(md5)
    finish(config, time, pid, job, data, ENDS[kind], body)
  end
end

local by_hand = false
for i = 5, #ARGV, 7 do
  local pid, kind = ARGV[i], ARGV[i + 2]
  local job = job_of(pid)
  local is_ours = job and job.s == 'active' and job.w == worker and digits(job.n) == ARGV[i + 1]
  local data = is_ours and data_of(pid, job)
  letters[#letters + 1] = data and '1' or '0'
  by_hand = by_hand or is_ours and job.k == 'h'
  if is_ours and not data then
    lose(time, pid, job)
  elseif data and (kind == 'l' or kind == 'k') then
    front[#front + 1] = { pid, job, kind == 'k' and 'known', ARGV[i + 6] }
  elseif data then
    settle(pid, job, data, kind, tonumber(ARGV[i + 3]), ARGV[i + 4], ARGV[i + 5], ARGV[i + 6])
  end
end
table.sort(retried, by_token)
for n = #retried, 1, -1 do
  local pid, job, data, ms = unpack(retried[n])
  if ms > 0 then
    schedule(pid, job, data, ms, #retried - n)
  else
    to_the_end(pid, job, data)
  end
end
return_raw(worker, raw)
table.sort(front, by_token)
requeue(config, time, front)
wake(woken)
retire(worker)
if by_hand and call('EXISTS', key('held:' .. worker)) == 0 then disappear(wire_id(worker)) end
return remember(session, number, table.concat(letters))
