-- ask_all: ask all workers to cancel the jobs of a queue that they run.
-- KEYS[1] prefix
-- ARGV body cursor count first
-- `first` 1: processes of originals count. They are sent the message each time.
-- Returns: {the next cursor, how many were asked that had not been asked before}
-- Invariant: a process of Tenure has the request until it ends. Sending it again is harmless.
--@include cancels
local body, cursor_in, count, first = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
allow_when_full()
check_types()
local following, pids = unpack(call('SSCAN', working, cursor_in, 'COUNT', count))
local asked = 0
for _, pid in ipairs(pids) do
  local job = records.of(pid)
  local data = call('LINDEX', process_key(pid), -1)
  if job and data then
    asked = asked + (job.x and 0 or 1)
    ask(pid, job, body)
  elseif data then
    publish_cancel(data)
    asked = asked + (first == '1' and 1 or 0)
  end
end
return { following, asked }
