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

-- The same for many: what is known of each of them, and that nothing is any more.
local function cancels_asked(ids)
  return has_notes() and call('HMGET', key('cancelling'), unpack(ids)) or {}
end

local function clear_all_notes(ids)
  if #ids > 0 and has_notes() then
    call('HDEL', key('cancelling'), unpack(ids))
    call('HDEL', key('progress'), unpack(ids))
  end
end
