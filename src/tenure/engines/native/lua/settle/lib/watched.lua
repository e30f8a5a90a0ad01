-- lib watched: callers that wait for the end of a job.
-- Defines: watched. Redis: reads and writes.
--@include lazy
local watched = setmetatable({ function(my)
  local are_there = nil

  -- Note that no client waits: a caller has asked.
  function my.are_absent() are_there = false end

  -- Publish the end of a job to the callers that wait for it.
  function my.publish_end(id, state)
    if are_there == nil then are_there = call('EXISTS', key('watched')) == 1 end
    if are_there and call('HDEL', key('watched'), id) == 1 then
      call('PUBLISH', string.gsub(prefix, '/%d+%-%d+}$', '}') .. ':ended:' .. id, state)
    end
  end
end }, lazy)
