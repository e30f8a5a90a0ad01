-- lib laneends: what the end of a job means for its lane.
-- Defines: lane_ends. Redis: reads and writes.
--@include shape
local lane_ends = setmetatable({ function(my)
  -- The failed jobs that block a lane.
  function my.blockers(lane)
    local packed = call('HGET', key('blocked'), lane)
    return packed and cmsgpack.unpack(packed) or {}
  end

  local function set_blockers(lane, ids)
    if #ids > 0 then
      call('HSET', key('blocked'), lane, cmsgpack.pack(ids))
    else
      call('HDEL', key('blocked'), lane)
    end
  end

  -- Let a failed job that is removed or run again no longer block its lane.
  function my.unblock(id)
    local lane = lanes.occupied_by(id)
    local ids, others = lane and my.blockers(lane) or {}, {}
    for _, other in ipairs(ids) do
      if other ~= id then others[#others + 1] = other end
    end
    if #others < #ids then set_blockers(lane, others) end
  end

  -- Let the lane of an ended job continue without it.
  function my.leave(shape, id)
    local lane = shapes.word(shape, 'l')
    if lane then lanes.leave({ lane }, { id }) end
  end

  -- End a job in its lane by the rule of the queue. Returns whether the job blocks its lane.
  function my.end_badly(time, state, id, shape)
    local lane = shapes.word(shape, 'l')
    if not lane or call('HEXISTS', key('busy'), id) == 0 then return false end
    local rule = state ~= 'cancelled' and call('HGET', key('settings'), 'lane_failure')
    if rule == 'block' then
      local ids = my.blockers(lane)
      ids[#ids + 1] = id
      set_blockers(lane, ids)
      return true
    end
    if rule == 'park' and call('HEXISTS', key('parked'), lane) == 0 then
      lanes.change({ lane }, false, function() call('HSET', key('parked'), lane, time .. ' ' .. id) end)
    end
    my.leave(shape, id)
    return false
  end
end }, lazy)
