-- lib uniques: the markers of unique tasks. A marker is of bytes, so it stands for all copies of a task.
-- A record of a task that had its marker when it ended has m = 1: a retry of it takes the marker again.
-- `removed` has tasks that left without their marker, which `unmark` removes: a script cannot compute their MD5.
--@include jobs

-- Whether a task with these bytes waits, is aside or runs. Looks at MAX_GHOST_LOOK processes at most.
local function lives(data)
  local pid = call('HGET', key('names'), redis.sha1hex(data))
  local job = pid and records.of(pid)
  if job and (job.s == 'scheduled' or job.s == 'unroutable') then return true end
  if call('LPOS', waiting, data) then return true end
  for _, process in ipairs(call('SSCAN', working, 0, 'COUNT', @MAX_GHOST_LOOK@)[2]) do
    if call('LINDEX', process_key(process), -1) == data then return true end
  end
  return false
end

-- Remove the marker of bytes, unless another copy lives. Returns 1 when it was removed, else nil.
local function free_last(data, md5)
  if md5 == '' or call('EXISTS', marker_key(md5)) == 0 or lives(data) then return nil end
  return free(md5)
end
