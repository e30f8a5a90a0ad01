-- foreign: look through a page of the processes of a queue for those that originals left behind.
-- KEYS[1] prefix
-- ARGV config cursor count
-- Returns: {the next cursor, how many tasks returned to the queue}
-- Invariant: a process id without a list goes. A process of the original returns to the front when no live worker of
-- the original has served the queue for `config.stray` ms. Race: before that, the worker of the process may be at work.
-- Sending it again is harmless.
--@include originals
local config, cursor, count = cjson.decode(ARGV[1]), ARGV[2], ARGV[3]
allow_when_full()
check_types()
local time = clock()
if tonumber(call('HGET', key('meta'), 'amnesty') or 0) > time then return { '0', 0 } end
local live, dead = serving()
local following, pids = unpack(call('SSCAN', working, cursor, 'COUNT', count))
local returned = 0
for _, pid in ipairs(pids) do
  local job = records.of(pid)
  if call('EXISTS', process_key(pid)) == 0 then
    if not job or job.s ~= 'active' then call('SREM', working, pid) end
    call('ZREM', key('foreign'), pid)
  elseif live or job then
    call('ZREM', key('foreign'), pid)
  elseif is_old(config, time, key('foreign'), pid) then
    return_task(pid)
    returned = returned + 1
  end
end
wake(returned)
-- Originals that are alive fail the dead ones themselves.
for _, id in ipairs(live and {} or dead) do
  if is_old(config, time, key('silent'), id) then
    call('ZREM', key('silent'), id)
    call('SREM', queues_key(id), queue)
    if call('EXISTS', queues_key(id)) == 0 then
      call('SREM', base .. ':workers', id)
      call('SREM', base .. ':expiringWorkers', id)
    end
  end
end
for _, marks in ipairs({ 'foreign', 'silent' }) do call('PEXPIRE', key(marks), @META_TTL_MS@) end
return { following, returned }
