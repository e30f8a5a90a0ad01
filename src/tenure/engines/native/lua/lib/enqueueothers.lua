-- lib enqueueothers: add jobs if some have a time, their caller's id or a large record, or if the queue has a maximum length. A part
-- of `enqueue`.
-- Needs: ARGV, each, jobs, map, max_length, room, time. Sets: due_at, has_ended_before, later, scheduled. Redis: reads.
--@include admit large layout noted
-- In a queue with partitions, max_length here is the share of this one: the caller has to know the others.
local outdated_map = max_length and not map and outdated(0)
if outdated_map then return outdated_map end
has_ended_before, due_at, scheduled, later = has_ended, due_time, {}, {}
local largest = 0
call('ZCARD', key('scheduled'))
call('HLEN', key('ended'))
for i = 5, #ARGV, each do largest = math.max(largest, #ARGV[i]) end
local full = refusal(room, each, function(id, at)
  return call('HEXISTS', jobs, id) == 0 and not (each == 4 and ARGV[at + 3] ~= '0' and has_ended(id, time))
end)
if full then return full end
note_layout()
note_size(largest)
