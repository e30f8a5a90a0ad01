-- settle: end jobs of one worker, each with its own outcome. A job that the worker has lost changes nothing.
-- KEYS[1] prefix
-- ARGV session number config worker (id token kind ms task body)...
-- kind: c completed, r retry, l released, k crashed, u unroutable, f failed, b broken, x cancelled. ms: the delay of a retry.
-- Returns: a string of one character for each settlement: 1 settled, 0 lost.
-- Invariant: a settled job has left `progress`, but for a retry with a delay. It is nowhere (c), in the list (l, k and u of a raw payload at the right
-- end; r without delay at the left end), with the originals' failed or broken jobs, or in a record beside the wire.
--@include back remember passing
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
--@include transition
local time = clock()
local letters, front, retried, raw = {}, {}, {}, {}
local ENDS = { f = 'failed', b = 'broken', x = 'cancelled' }

-- Until a retry is due it stays in `progress` with the time at which it is due: no monitor takes a job that starts later.
local function schedule(id, job, ms, part)
  call('ZREM', key('held:' .. job.w), id)
  job.s, job.v = 'scheduled', stamp((time + ms) * 1000, job.n)
  call('HSET', progress, job.d, job.v)
  save(id, job)
  call('ZADD', key('scheduled'), string.format('%.17g', time + ms + part / 4096), id)
end

local function park(id, job, task)
  remove(id, job)
  job.s, job.task, job.v = 'unroutable', task, nil
  save(id, job)
  call('ZADD', key('unroutable:' .. task), job.n, id)
  call('SADD', key('unroutable'), task)
end

local function settle(id, job, kind, ms, task, body)
  if kind == 'c' then
    remove(id, job)
    call('HINCRBY', key('meta'), 'completed', 1)
  elseif kind == 'r' then
    job.f, job.e = job.f + 1, body
    call('HINCRBY', key('meta'), 'retried', 1)
    retried[#retried + 1] = { id, job, ms }
  elseif kind == 'u' and task == '*' then
    keep_counts(id, job)
    remove(id, job)
    raw[#raw + 1] = { job.n, job.d }
  elseif kind == 'u' then
    park(id, job, task)
  else
    job.f = job.f + (kind == 'f' and 1 or 0)
    remove(id, job)
    finish(config, time, id, job, ENDS[kind], body)
  end
end

for i = 5, #ARGV, 6 do
  local id, kind = ARGV[i], ARGV[i + 2]
  local job = job_of(id)
  local is_ours = job and job.s == 'active' and job.w == worker and digits(job.n) == ARGV[i + 1]
  local is_held = is_ours and is_still_held(job)
  letters[#letters + 1] = is_held and '1' or '0'
  if is_ours and not is_held then
    lose(id, job)
  elseif is_held and (kind == 'l' or kind == 'k') then
    front[#front + 1] = { id, job, kind == 'k' and 'known' }
  elseif is_held then
    settle(id, job, kind, tonumber(ARGV[i + 3]), ARGV[i + 4], ARGV[i + 5])
  end
end
-- Retries that are due at the same moment run in the order of their claims.
table.sort(retried, by_token)
for n = #retried, 1, -1 do
  local id, job, ms = unpack(retried[n])
  if ms > 0 then
    schedule(id, job, ms, #retried - n)
  else
    give_back('LPUSH', id, job)
  end
end
return_raw(worker, raw)
table.sort(front, by_token)
requeue(config, time, front)
retire(worker)
return remember(session, number, table.concat(letters))
