-- lib held: jobs that Tenure holds, as originals see them. They know no workers and no wake-ups.
--@include jobs
local function nothing() end
local held = {
  wake = nothing, show_worker = nothing, hide_worker = nothing, run_due = nothing,
  -- Let the job have just started, for the monitors of originals.
  prolong = function(id, job, micros)
    job.v = stamp(micros, job.n)
    call('HSET', progress, job.d, job.v)
    records.save(id, job)
  end,

  finish = function(config, time, id, job, _, state, body)
    remove(id, job)
    finish(config, time, id, job, state, body)
  end,
}
