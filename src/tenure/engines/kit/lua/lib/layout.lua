-- lib layout: `meta.layout` is the highest layout version that any release has written to this queue; absent means 1. A
-- release reads its own version and those before it. See docs/decisions/0019.

local newer_layout = nil

-- Compare the text of `meta.layout` with this release's version, and raise it to that. True: a newer release has
-- written to the queue, and `newer_layout` is its version.
local function meets_newer_layout(stored)
  local version = tonumber(stored or 1) or 1
  if version > @LAYOUT@ then
    newer_layout = stored
  elseif version < @LAYOUT@ then
    call('HSET', key('meta'), 'layout', @LAYOUT@)
  end
  return newer_layout ~= nil
end

-- For an enqueue, which is never refused: newer releases read the records of older ones. Version 1 is the one that
-- nothing has to be written for.
local function note_layout()
  if @LAYOUT@ > 1 then meets_newer_layout(call('HGET', key('meta'), 'layout')) end
end

local function newer_layout_error()
  return redis.error_reply('TNLAYOUT ' .. newer_layout .. ' @LAYOUT@')
end
