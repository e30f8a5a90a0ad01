-- lib notes: what is noted beside an active job: that it is to be cancelled (the body of that end), how far it is.
--@include rare
local noted = nil
local function has_notes()
  if noted == nil then
    noted = rare and call('EXISTS', key('cancelling'), key('progress')) > 0
  end
  return noted
end

-- The body of its end when somebody wants it to be cancelled.
local function cancel_asked(id)
  return has_notes() and call('HGET', key('cancelling'), id)
end

local function clear_notes(id)
  if has_notes() then
    call('HDEL', key('cancelling'), id)
    call('HDEL', key('progress'), id)
  end
end
