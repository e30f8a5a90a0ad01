-- lib back: jobs that were not settled come back to the right end of the list, where jobs are taken, in the order of
-- their claims.
--@include held retire crash

local function by_token(a, b) return a[2].n > b[2].n end

-- Forget a job that another client took away. It is in the list, or with that client: the counts stay with it.
local function lose(time, id, job)
  keep_counts(time, id, job)
  remove(id, job)
end

-- Give a job back to one end of the list.
local function give_back(time, command, id, job, data)
  keep_counts(time, id, job)
  remove(id, job)
  call(command, waiting, data)
end

-- Count a crash. True: it was one too many.
local function count_crash(config, job, how)
  job.c, job.u = job.c + 1, job.u + (is_own(how) and 0 or 1)
  call('HINCRBY', key('meta'), 'crashed', 1)
  return is_limit(config, how, job.c, job.u)
end

-- Bring jobs back, for entries {id, job, crashed, mark} with the highest token first: each goes to the very front.
-- `crashed` 'known': nothing else can have caused it. Beside a job that ran alone no other job is to blame. Of the jobs
-- that are to run alone the latest claim comes first. Answers how many of them still were with us.
local function requeue(config, time, entries)
  local alone, back, lonely, count = {}, {}, {}, 0
  for _, entry in ipairs(entries) do
    local job = entry[2]
    alone[job.w] = alone[job.w] or crash_of(config, time, job.k, job.t) == 'alone'
  end
  for _, entry in ipairs(entries) do
    local id, job = entry[1], entry[2]
    local data = data_of(id, job)
    -- A persistent job that has run for long is not to blame for a death.
    if job.p == 1 and is_steady(config, time, job.t, '') then job.c, job.u = 0, 0 end
    local how = entry[3] and crash_of(config, time, job.k, job.t)
    if how and entry[3] == 'known' then how = 'known' end
    if how == 'shared' and alone[job.w] then how = nil end
    if not data then
      lose(time, id, job)
    else
      count = count + 1
      local is_over = how and count_crash(config, job, how)
      if job.x or is_over then
        held.finish(config, time, id, job, data, job.x and 'cancelled' or 'broken', job.x or crash_body(job.c),
          entry[4])
      else
        local list = job.u >= config.alone and lonely or back
        entry[3], list[#list + 1] = data, entry
      end
    end
  end
  -- The latest of the lonely ones is taken first, then the earliest of the others.
  for n = #lonely, 1, -1 do back[#back + 1] = lonely[n] end
  for _, entry in ipairs(back) do give_back(time, 'RPUSH', entry[1], entry[2], entry[3]) end
  held.wake(#back)
  return count
end

-- Add what a worker holds to `entries`. With `crashed` the earliest claims count as crashed: as many as can have been
-- running, which is twice the worker's slots, since some jobs may just have ended. The others were claimed ahead and
-- had not started.
local function collect(entries, worker, crashed)
  for n, id in ipairs(call('ZRANGE', key('held:' .. worker), 0, -1)) do
    local job = records.of(id)
    if job and job.s == 'active' and job.w == worker then
      entries[#entries + 1] = { id, job, crashed and n <= 2 * (tonumber(job.k) or 1000) }
    else
      call('ZREM', key('held:' .. worker), id)
    end
  end
end

-- Release these jobs of these workers in one order, at most BACK_MOST: the latest claims, so that the earlier ones,
-- which come back with the next call, come before them. Answers how many came back, and whether more are left.
local function release_claims(config, time, workers, entries)
  table.sort(entries, by_token)
  local now = {}
  for n = 1, math.min(#entries, @BACK_MOST@) do now[n] = entries[n] end
  local count = requeue(config, time, now)
  for _, worker in ipairs(workers) do
    retire(worker)
    held.hide_worker(worker)
  end
  return count, #entries > #now
end
