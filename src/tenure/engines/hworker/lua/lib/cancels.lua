-- lib cancels: what becomes of a job that is kept outside the list and does not run any more.
--@include view
local function discard(id, job) remove(id, job) end

local function cancel_aside(config, time, id, job, body)
  held.finish(config, time, id, job, job.d, 'cancelled', body)
end
