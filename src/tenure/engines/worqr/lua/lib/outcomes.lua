-- lib outcomes: what becomes of a process that a worker settles.
--@include jobs
local outcomes = {
  set_aside = set_aside,
  -- Originals publish the result of a task, and keep it nowhere.
  complete = function(pid, job, data, body, md5)
    remove(pid, job)
    free(md5)
    local message = '{"workerId":' .. cjson.encode(wire_id(job.w)) .. ',"task":' .. cjson.encode(data)
    call('PUBLISH', base .. '_' .. queue .. '_done', message .. (body ~= '' and ',"result":' .. body or '') .. '}')
  end,

  -- A retry waits on our side: originals requeue any process that they can see.
  put_off = function(pid, job, data) set_aside(pid, job, data, 'scheduled') end,
}
