-- lib held: processes that Tenure holds, as originals see them.
--@include jobs
local held = {
  wake = wake, show_worker = appear,
  -- Take a worker that holds nothing off the wire.
  hide_worker = function(worker)
    if call('EXISTS', key('held:' .. worker)) == 0 then disappear(wire_id(worker)) end
  end,

  run_due = function(time)
    limit_new_counters()
    remove_silent(time)
  end,

  prolong = function(pid) call('SADD', working, pid) end, -- an original may have emptied the set

  -- `md5`: of the task, for its marker; nil: it is not known, so that `unmark` removes the marker.
  finish = function(config, time, pid, job, data, state, body, md5)
    job.m = free(md5)
    if not md5 then leave_to_unmark(data) end
    finish(config, time, pid, job, data, state, body)
  end,
}
