-- lib following: jobs that come to be by the end of another job: they are added here, or sent through lib sending.
-- Needs: digits. Defines: following. Redis: reads and writes.
--@include addjobs ends sending routing
local following = {}
local MISFIT = '{"type":"UnsupportedFeature","message":"A job of a queue with partitions has a lane or a unique key, '
  .. 'not both, and neither limits nor a share."}'

local function is_misfit(shape)
  return shape ~= '' and noted_version() > 0 and homes.is_parted
    and (shapes.word(shape, 'l') and uniques.key_of(shape) or shapes.word(shape, 'm') or shapes.word(shape, 'g'))
end

-- Sort jobs, {queue, id, record, due, rule}, by where they go. `source`: the place that has sent them, if any. All that
-- may fail comes before the first write. `adds`: more members of the group of the job that has ended.
function following.read(jobs, source)
  local own, misfits, others, adds = {}, {}, {}, {}
  call('LLEN', key('ready'))
  call('ZCARD', key('scheduled'))
  for _, entry in ipairs(jobs) do
    local queue, job = entry[1], { unpack(entry, 2, 5) }
    local is_here = queue == sending.queue and not string.find(entry[5], '^%l')
    if is_here then queue = routing.next_place(job, source) end
    if entry[5] == 'add' then
      adds[#adds + 1] = entry
    elseif queue then
      others[#others + 1] = { queue, unpack(job) }
    else
      table.insert(is_misfit(shape_of('0 ' .. job[2])) and misfits or own, job)
    end
  end
  sending.check(others)
  return { own = jobs_to_add(own), misfits = misfits, others = others, adds = adds }
end

-- Add them, whether or not there is room: what has caused them must not fail for it. A job that cannot be here ends in
-- broken: no caller is there that could be refused.
function following.add(config, found)
  if #found.own > 0 then add_jobs(found.own, 0) end
  local time, micros = clock()
  for n, job in ipairs(found.misfits) do
    if call('HSETNX', key('jobs'), job[1], word_of(digits(micros), n) .. ' ' .. job[2]) == 1 then
      end_badly(config, time, 'broken', job[1], 0, 0, '0', '-', '0', MISFIT)
    end
  end
  sending.send(found.others)
end
