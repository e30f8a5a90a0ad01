-- lib reshape: a job that gets the arguments of another call gets the limits and the share that follow from them.
-- Needs: gates, has_limits, lanes, place_of, shape_of, shapes, take_out. Defines: change_line, reshape. Redis: reads.

-- A shape with other limits and another share; nil: none. A job in a lane has no share.
local function reshape(shape, limit_words, share)
  local others = shape == '' and '' or string.gsub(string.gsub(' ' .. shape, ' m=%S+', ''), ' g=%S+', '')
  if limit_words then others = others .. ' m=' .. limit_words end
  if share and not shapes.word(shape, 'l') then others = others .. ' g=' .. share end
  return string.sub(others, 2)
end

-- Put a ready job into the line of its shape, at the end. `old`: its record before. A job with the same line keeps its
-- place.
local function change_line(id, old, shape)
  local before = shape_of(old)
  if shapes.list_of(before) ~= shapes.list_of(shape) then
    take_out(id, 'ready', place_of(id, 'ready', nil, old))
    shapes.place_late(id, shape)
    return
  end
  local lane = before ~= shape and has_limits() and shapes.word(shape, 'l')
  if lane and lanes.entry_of(call('LINDEX', key('lane:' .. lane), 0) or '') == id then
    lanes.change({ lane }, true, function() gates.leave(lane) end)
  end
end
