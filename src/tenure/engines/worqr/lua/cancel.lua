-- cancel: end a job that waits or is aside; ask the worker of one that runs.
-- KEYS[1] prefix
-- ARGV session number config id body task md5
-- `id`: a process id or the sha1 of bytes; `task`: the bytes of a task that waits, or ''.
-- Returns: 1 cancelled, 2 its worker was asked, 0 there is no such job
-- Invariant: a process of Tenure has the request until it ends. A process of an original gets the message only.
--@include cancels answers transition
local session, number, id, body, task, md5 = ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local time, micros = clock()
local pid, answer = pid_of(id), '0'
local job = pid and records.of(pid)
local foreign = not job and call('SISMEMBER', working, id) == 1 and call('LINDEX', process_key(id), -1)
if job and job.s == 'active' then
  if data_of(pid, job) then
    ask(pid, job, body)
    answer = '2'
  end
elseif foreign then
  publish_cancel(foreign)
  answer = '2'
elseif job and (job.s == 'scheduled' or job.s == 'unroutable') then
  cancel_aside(config, time, pid, job, body, md5)
  answer = '1'
elseif (not job or job.s ~= 'active') and redis.sha1hex(task) == id and call('LREM', waiting, -1, task) == 1 then
  cancel_waiting(config, time, next_tokens(micros, 1), session, task, body, free_last(task, md5))
  answer = '1'
end
return remember(session, number, answer)
