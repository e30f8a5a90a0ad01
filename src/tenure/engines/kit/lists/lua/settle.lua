-- settle: end jobs of one worker, each with its own outcome. A job that the worker has lost changes nothing.
-- KEYS[1] prefix
-- ARGV session number config worker (id token kind ms task body mark)...
-- kind: c completed, p a round of a persistent job, r retry, l released, k crashed, u unroutable, f failed, b broken, x
-- cancelled.
-- ms: the delay of a retry. body: an error, or the result as JSON. mark: what only Python can make of the bytes, or ''.
-- Returns: a string of one character for each settlement: 1 settled, 0 lost.
-- Invariant: a settled job is no longer held. It is nowhere (c), in the list (l, k and u of a raw payload at the right
-- end; r without delay and p at the left end), where originals keep failed and broken jobs, or in a record beside the
-- wire.
--@include back outcomes answers passing transition
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local time = clock()
local letters, front, retried, raw, woken, by_hand = {}, {}, {}, {}, 0, false
local ENDS = { f = 'failed', b = 'broken', x = 'cancelled' }

local function return_to_the_end(id, job, data)
  give_back(time, 'LPUSH', id, job, data)
  woken = woken + 1
end

local function park(id, job, data, task)
  job.task = task
  outcomes.set_aside(id, job, data, 'unroutable')
  call('ZADD', key('unroutable:' .. task), job.n, id)
  call('SADD', key('unroutable'), task)
end

local function settle(id, job, data, kind, ms, task, body, mark)
  if job.x and (kind == 'p' or kind == 'r' or kind == 'u') then
    held.finish(config, time, id, job, data, 'cancelled', job.x, mark)
  elseif kind == 'c' then
    outcomes.complete(id, job, data, body, mark)
    call('HINCRBY', key('meta'), 'completed', 1)
  elseif kind == 'p' then
    job.f, job.c, job.u, job.e = 0, 0, 0, nil
    call('HINCRBY', key('meta'), 'rounds', 1)
    return_to_the_end(id, job, data)
  elseif kind == 'r' then
    job.f, job.e = job.f + 1, body
    call('HINCRBY', key('meta'), 'retried', 1)
    retried[#retried + 1] = { id, job, data, ms }
  elseif kind == 'u' and task == '*' then
    keep_counts(time, id, job)
    remove(id, job)
    raw[#raw + 1] = { job.n, data }
    woken = woken + 1
  elseif kind == 'u' then
    park(id, job, data, task)
  else
    job.f = job.f + (kind == 'f' and 1 or 0)
    held.finish(config, time, id, job, data, ENDS[kind], body, mark)
  end
end

for i = 5, #ARGV, 7 do
  local id, kind = ARGV[i], ARGV[i + 2]
  local job = records.of(id)
  local is_ours = job and job.s == 'active' and job.w == worker and digits(job.n) == ARGV[i + 1]
  local data = is_ours and data_of(id, job)
  letters[#letters + 1] = data and '1' or '0'
  by_hand = by_hand or is_ours and job.k == 'h'
  if is_ours and not data then
    lose(time, id, job)
  elseif data and (kind == 'l' or kind == 'k') then
    front[#front + 1] = { id, job, kind == 'k' and 'known', ARGV[i + 6] }
  elseif data then
    settle(id, job, data, kind, tonumber(ARGV[i + 3]), ARGV[i + 4], ARGV[i + 5], ARGV[i + 6])
  end
end
-- Retries that are due at the same moment run in the order of their claims.
table.sort(retried, by_token)
for n = #retried, 1, -1 do
  local id, job, data, ms = unpack(retried[n])
  if ms > 0 then
    outcomes.put_off(id, job, data, time + ms)
    call('ZADD', key('scheduled'), string.format('%.17g', time + ms + (#retried - n) / 4096), id)
  else
    return_to_the_end(id, job, data)
  end
end
return_raw(worker, raw)
table.sort(front, by_token)
requeue(config, time, front)
held.wake(woken)
retire(worker)
if by_hand then held.hide_worker(worker) end
return remember(session, number, table.concat(letters))
