-- lib records: the records of Tenure: `jobs` has one for each job that it holds or keeps, by its id. s
-- state; w worker; n token; t time of the claim; k kind of the claim; f failures; c crashes; u doubtful crashes; e last
-- error; p persistent; x body of a cancel request; due, ended, expires, task. What a format adds is in the engine's lib
-- jobs.
local records = {
  of = function(id)
    local text = call('HGET', key('jobs'), id)
    return text and cmsgpack.unpack(text)
  end,

  save = function(id, job) call('HSET', key('jobs'), id, cmsgpack.pack(job)) end,

  -- Forget a record, and nothing that originals know.
  forget = function(id, job)
    call('HDEL', key('jobs'), id)
    if job.s == 'unroutable' then
      call('ZREM', key('unroutable:' .. job.task), id)
      if call('EXISTS', key('unroutable:' .. job.task)) == 0 then call('SREM', key('unroutable'), job.task) end
    elseif job.s == 'active' then
      call('ZREM', key('held:' .. job.w), id)
    else
      call('ZREM', key(job.s), id)
    end
  end,
}
