-- lib outcomes: what becomes of a job that a worker settles.
--@include jobs
local outcomes = {
  complete = remove,

  -- Keep a job in a record, out of reach of originals.
  set_aside = function(id, job, _, state)
    remove(id, job)
    job.s, job.v = state, nil
    records.save(id, job)
  end,

  -- Until a retry is due, `at`, it stays in `progress` with that time: no monitor takes a job that starts later.
  put_off = function(id, job, _, at)
    call('ZREM', key('held:' .. job.w), id)
    job.s, job.v = 'scheduled', stamp(at * 1000, job.n)
    call('HSET', progress, job.d, job.v)
    records.save(id, job)
  end,
}
