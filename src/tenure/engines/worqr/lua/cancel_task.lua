-- cancel_task: end the tasks that wait and have these bytes, and ask the workers of those that run.
-- KEYS[1] prefix
-- ARGV session number config limit body task md5
-- Returns: `1 ` when more may wait, else `0 `, and how many ended
-- Invariant: all workers get the message, the originals' too; a process of Tenure has the request until it ends.
-- Looks at MAX_GHOST_LOOK processes at most. The marker goes only with the last copy in this queue.
--@include cancels answers transition
local session, number, limit, body, task, md5 = ARGV[1], ARGV[2], tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local time, micros = clock()
local count = call('LREM', waiting, -limit, task)
local first = count > 0 and next_tokens(micros, count)
local marked = count > 0 and free_last(task, md5) or nil
for n = 0, count - 1 do cancel_waiting(config, time, first + n, session, task, body, marked) end
local aside = pid_of(redis.sha1hex(task))
local job = aside and records.of(aside)
if job and (job.s == 'scheduled' or job.s == 'unroutable') then
  cancel_aside(config, time, aside, job, body, md5)
  count = count + 1
end
for _, pid in ipairs(call('SSCAN', working, 0, 'COUNT', @MAX_GHOST_LOOK@)[2]) do
  if call('LINDEX', process_key(pid), -1) == task then
    local job = records.of(pid)
    if job and job.s == 'active' then ask(pid, job, body) end
  end
end
publish_cancel(task)
return remember(session, number, (count >= limit and '1 ' or '0 ') .. count)
