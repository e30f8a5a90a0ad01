-- unlisted: return the tasks of processes that are in no set.
-- KEYS[1] prefix
-- ARGV config pid...
-- Returns: how many tasks returned to the queue
-- Invariant: a task returns to the front when its process was in no set, and no process of Tenure, at two looks with
-- `config.stray` ms between them. Sending it again is harmless.
--@include originals
local config = cjson.decode(ARGV[1])
allow_when_full()
check_types()
local time, returned = clock(), 0
for i = 2, #ARGV do
  local pid = ARGV[i]
  local job = records.of(pid)
  local is_listed = call('SISMEMBER', working, pid) == 1
  if not is_listed and not (job and job.s == 'active') and call('EXISTS', process_key(pid)) == 1
    and is_old(config, time, key('foreign'), pid) then
    return_task(pid)
    returned = returned + 1
  end
end
wake(returned)
call('PEXPIRE', key('foreign'), @META_TTL_MS@)
return returned
