-- lib notes: notes about active jobs: that a job is to be cancelled (the body of that end), and its progress.
-- Defines: notes. Redis: reads and writes.
--@include lazy
local notes = setmetatable({ function(my)
  local are_there = nil
  local function has_notes()
    if are_there == nil then
      are_there = uses_features and call('EXISTS', key('cancelling'), key('progress')) > 0
    end
    return are_there
  end

  -- Note that no job has notes: a caller has asked.
  function my.are_absent() are_there = false end

  -- The body of the end of each of these jobs that is to be cancelled.
  function my.cancels(ids)
    return has_notes() and call('HMGET', key('cancelling'), unpack(ids)) or {}
  end

  function my.clear(ids)
    if #ids > 0 and has_notes() then
      call('HDEL', key('cancelling'), unpack(ids))
      call('HDEL', key('progress'), unpack(ids))
    end
  end
end }, lazy)
