-- lib shape: where a job waits. The words of a shape are the last ones of the first line of the record and of the
-- claim: p=<priority> l=<lane> n=<most jobs of the lane at one time> u=<mode>:<unique key> k=1 (persistent) m=<limits>
-- g=<share> x=<when it expires: see lib deadlines> o=<the job that follows a bad
-- end: see lib sending> f=<the place of its group: see lib flow>.
-- Sets: shapes. Defines: note_limits. Redis: reads and writes.
--@include lazy clock shapeof laneline

-- Note that the queue has jobs with limits: see `has_limits`.
local function note_limits(shape)
  if not limited and has_places(shape) then call('HSET', key('meta'), 'limited', '1') end
end

-- What answers the value of a word of a shape, nil for none. A shape is asked for several of its words.
local function word_of_shapes()
  local parsed = {}
  return function(shape, name)
    if not parsed[shape] then
      local words = {}
      for word, value in string.gmatch(' ' .. shape, ' (%a)=(%S+)') do words[word] = value end
      parsed[shape] = words
    end
    return parsed[shape][name]
  end
end

shapes = setmetatable({ function(my)
  my.word = word_of_shapes()

  -- The lane in which a job waits: its own, or the internal one of its limits and its share; nil for none.
  function my.lane_of(shape)
    local own, common, share = my.word(shape, 'l'), my.word(shape, 'm'), my.word(shape, 'g')
    if own or not common and not share then return own end
    return '@' .. (common or '') .. (share and '@' .. share or '')
  end

  -- The list of a job's lane or priority, else `ready`.
  function my.list_of(shape)
    local lane, priority = my.lane_of(shape), my.word(shape, 'p')
    return lane and 'lane:' .. lane or priority and 'ready:' .. priority or 'ready'
  end

  -- Raise an error if another program's data is in the place of a job's list. A call checks all of its jobs before it
  -- writes anything.
  local checked = {}
  function my.check(shape)
    local list = my.list_of(shape)
    checked[list] = checked[list] or call('LLEN', key(list))
  end

  -- Put a job into its list: at the end, or with `first` at the front.
  function my.place(id, shape, first)
    local lane, priority = my.lane_of(shape), my.word(shape, 'p')
    if lane and first and is_internal(lane) then
      lane_line.put_first(lane, id)
    elseif lane and first then
      lane_line.requeue(lane, id)
    elseif lane then
      lane_line.append({ lane }, { [lane] = { id, limit = tonumber(my.word(shape, 'n') or 1) } })
    else
      call(first and 'LPUSH' or 'RPUSH', key(my.list_of(shape)), id)
    end
    if priority and not lane then call('ZADD', key('priorities'), priority, priority) end
    wake_one()
  end

  -- Put a job that was out of line into its list: at the front if it occupies its lane, else at the end.
  function my.place_again(id, shape)
    my.place(id, shape, call('HEXISTS', key('busy'), id) == 1)
  end

  -- Put a job into its list after this call has written something. If the list is another program's, the job becomes
  -- due now instead, and the next call that promotes it raises the error.
  function my.place_late(id, shape)
    local size = redis.pcall('LLEN', key(my.list_of(shape)))
    if type(size) == 'number' then
      my.place(id, shape, false)
    else
--@part due
      call('ZADD', key('scheduled'), (clock()), due_entry(id, call('HGET', key('jobs'), id)))
    end
  end
end }, lazy)
