-- take: add jobs that another queue has sent, once; or send them on to the partition that they belong to. Note what has
-- become of members of groups, and start flows.
-- KEYS[1] prefix
-- ARGV config source (number id record due rule)...
-- source: the place of a queue that sends them, in the order of their numbers.
-- Returns: the number of the last job that was taken, now or before; then `!` if this call has woken a worker, and `~`
-- if jobs are on their way.
-- Invariant: a job is added, or sent on, in the step that notes its number in `in`. Sending it again is harmless, by
-- any number of callers at a time. The queue takes them, whether or not it has room.
--@include begin flow
local source, found, words = ARGV[2], {}, {}
allow_when_full()
local last = tonumber(call('HGET', key('in'), source) or 0)
for i = 3, #ARGV, 5 do
  local number = tonumber(ARGV[i])
  if number > last then
    if string.find(ARGV[i + 4], '^%l') then -- no job
      words[#words + 1] = { '', unpack(ARGV, i + 1, i + 4) }
    else
      found[#found + 1] = { sending.queue, unpack(ARGV, i + 1, i + 4) }
    end
    last = number
  end
end
local woken = ''
if #found > 0 then
--@part types following
  check_types()
  following.add(cjson.decode(ARGV[1]), following.read(found, source))
  woken = woke
end
flow.note(words)
call('HSET', key('in'), source, digits(last))
return digits(last) .. woken .. (sending.has_sent() and '~' or '')
