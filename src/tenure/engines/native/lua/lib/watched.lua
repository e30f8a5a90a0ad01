-- lib watched: callers that wait for the end of a job.
-- Defines: publish_end, watching. Redis: reads and writes.
local watching = nil
-- Publish the end of a job to the callers that wait for it.
local function publish_end(id, state)
  if watching == nil then watching = call('EXISTS', key('watched')) == 1 end
  if watching and call('HDEL', key('watched'), id) == 1 then
    call('PUBLISH', string.gsub(prefix, '/%d+%-%d+}$', '}') .. ':ended:' .. id, state)
  end
end
