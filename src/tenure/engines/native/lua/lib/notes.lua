-- lib notes: notes about active jobs: that a job is to be cancelled (the body of that end), and its progress.
-- Defines: cancels_asked, clear_notes, noted. Redis: reads and writes.
--@include lazy
local noted = nil
local function has_notes()
  if noted == nil then
    noted = uses_features and call('EXISTS', key('cancelling'), key('progress')) > 0
  end
  return noted
end

-- The body of the end of each of these jobs that is to be cancelled.
local function cancels_asked(ids)
  return has_notes() and call('HMGET', key('cancelling'), unpack(ids)) or {}
end

local function clear_notes(ids)
  if #ids > 0 and has_notes() then
    call('HDEL', key('cancelling'), unpack(ids))
    call('HDEL', key('progress'), unpack(ids))
  end
end
