-- lib followers: jobs that follow a job of which this call does not know: `then` has them, by the id of that job, as
-- MessagePack: a list of jobs, as lib sending takes them.
-- Defines: followers. Redis: reads and writes.
--@include lazy sending
local followers = setmetatable({ function(my)
  -- Check the keys before anything is written.
  function my.check()
    call('HLEN', key('then'))
    sending.check({})
  end

  -- Let a job follow this job. False: this job has as many as it may have.
  function my.add(id, job)
    local text = call('HGET', key('then'), id)
    local jobs = text and cmsgpack.unpack(text) or {}
    if #jobs >= @MAX_FOLLOW@ then return false end
    jobs[#jobs + 1] = job
    call('HSET', key('then'), id, cmsgpack.pack(jobs))
    return true
  end

  -- Send the jobs that follow these, which have completed.
  function my.release(ids)
    for _, text in ipairs(call('HMGET', key('then'), unpack(ids))) do
      if text then sending.send(cmsgpack.unpack(text)) end
    end
    call('HDEL', key('then'), unpack(ids))
  end
end }, lazy)
