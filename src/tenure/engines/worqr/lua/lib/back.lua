-- lib back: processes that were not settled come back to the right end of the queue, where tasks are served, in the order of
-- their claims. (The original puts them to the other end.)
--@include uniques retire crash

local function by_token(a, b) return a[2].n > b[2].n end

-- A persistent job that has run for long is not to blame for a death.
local function is_cleared(config, time, job)
  local age = time - job.t
  return job.p == 1 and (age > config.steady or age < 0)
end

-- Forget a process that another client took away. Its task is in the queue, or with another client: the counts stay with it.
local function lose(time, pid, job)
  keep_counts(time, job)
  forget(pid, job)
  call('SREM', working, pid)
end

-- Count a crash. True: it was one too many.
local function count_crash(config, time, job, how)
  job.c, job.u = job.c + 1, job.u + (is_own(how) and 0 or 1)
  call('HINCRBY', key('meta'), 'crashed', 1)
  return is_limit(config, how, job.c, job.u)
end

-- Bring processes back, for entries {pid, job, crashed, md5} with the highest token first: each goes to the very front.
-- `crashed` 'known': nothing else can have caused it. Beside a job that ran alone no other job is to blame. Of the jobs that are to run
-- alone the latest claim comes first. Answers how many of them still were with us.
local function requeue(config, time, entries)
  local alone, back, lonely, count = {}, {}, {}, 0
  for _, entry in ipairs(entries) do
    local job = entry[2]
    alone[job.w] = alone[job.w] or crash_of(config, time, job.k, job.t) == 'alone'
  end
  for _, entry in ipairs(entries) do
    local pid, job = entry[1], entry[2]
    local data = data_of(pid, job)
    if is_cleared(config, time, job) then job.c, job.u = 0, 0 end
    local how = entry[3] and crash_of(config, time, job.k, job.t)
    if how and entry[3] == 'known' then how = 'known' end
    if how == 'shared' and alone[job.w] then how = nil end
    if not data then
      lose(time, pid, job)
    else
      count = count + 1
      local is_over = how and count_crash(config, time, job, how)
      if job.x or is_over then
        job.m = free(entry[4])
        if not entry[4] then leave_to_unmark(data) end
        finish(config, time, pid, job, data, job.x and 'cancelled' or 'broken', job.x or crash_body(job.c))
      else
        local list = job.u >= config.alone and lonely or back
        list[#list + 1] = { pid, job, data }
      end
    end
  end
  -- The latest of the lonely ones is served first, then the earliest of the others.
  local order = back
  for n = #lonely, 1, -1 do order[#order + 1] = lonely[n] end
  for _, one in ipairs(order) do
    local pid, job, data = one[1], one[2], one[3]
    keep_counts(time, job)
    forget(pid, job)
    call('RPUSH', waiting, data)
    end_process(pid)
  end
  wake(#order)
  return count
end

-- Add what a worker holds to `entries`. With `crashed` the earliest claims count as crashed: as many as can have been running,
-- which is twice the worker's slots, since some jobs may just have ended. The others were claimed ahead and had not started.
local function collect(entries, worker, crashed)
  for n, pid in ipairs(call('ZRANGE', key('held:' .. worker), 0, -1)) do
    local job = job_of(pid)
    if job and job.s == 'active' and job.w == worker then
      entries[#entries + 1] = { pid, job, crashed and n <= 2 * (tonumber(job.k) or 1000) }
    else
      call('ZREM', key('held:' .. worker), pid)
    end
  end
end

-- Release these processes of these workers in one order, at most BACK_MOST: the latest claims, so that the earlier ones, which
-- come back with the next call, come before them. Answers how many came back, and whether more are left.
local function release_claims(config, time, workers, entries)
  table.sort(entries, by_token)
  local now = {}
  for n = 1, math.min(#entries, @BACK_MOST@) do now[n] = entries[n] end
  local count = requeue(config, time, now)
  for _, worker in ipairs(workers) do
    retire(worker)
    if call('EXISTS', key('held:' .. worker)) == 0 then disappear(wire_id(worker)) end
  end
  return count, #entries > #now
end
