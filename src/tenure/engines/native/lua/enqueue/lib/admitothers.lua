-- lib admitothers: what an enqueue of plain jobs checks first if some have a time, their caller's id or a large record,
-- or if the queue has a maximum length.
-- Defines: admit_others. Redis: reads.
--@include admit large layout noted

-- Returns an error if there is no room for all. `given`: the arguments of the call, `each` for a job, from the fourth
-- on.
local function admit_others(given, room, each, time)
  local jobs, largest = {}, 0
  call('ZCARD', key('scheduled'))
  call('HLEN', key('ended'))
  for i = 4, #given, each do
    jobs[#jobs + 1] = { given[i], own = each == 4 and given[i + 3] ~= '0' }
    largest = math.max(largest, #given[i + 1])
  end
  local full = refusal(room, jobs, function(job)
    return call('HEXISTS', key('jobs'), job[1]) == 0 and not (job.own and has_ended(job[1], time))
  end)
  if full then return full end
  note_layout()
  note_size(largest)
end
