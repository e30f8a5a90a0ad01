-- lib deadlines: jobs that end in cancelled unless they begin in time: the word x of a shape, +<ms from the enqueue> or
-- <time>. `expires` has the moments of those that wait, and `meta.expires` is set while it has any.
-- Defines: deadlines. Redis: reads and writes.
--@include lazy shapeof
local deadlines = setmetatable({ function(my)
  -- The body of the end of a job that has not begun in time.
  my.BODY = '{"type":"Expired","message":"The job has not begun in time."}'

  -- Note that a job waits, which was enqueued at this time.
  function my.note(id, shape, enqueued)
    local word = shape ~= '' and shapes.word(shape, 'x')
    if not word then return end
    call('ZADD', key('expires'), tonumber(word) + (string.sub(word, 1, 1) == '+' and enqueued or 0), id)
    call('HSET', key('meta'), 'expires', '1')
  end

  -- Note that a job waits again: it expires when it would have before it began.
  function my.note_again(id, shape)
    if shape ~= '' and shapes.word(shape, 'x') then
      my.note(id, shape, tonumber(string.sub(call('HGET', key('jobs'), id) or '', 1, 13)) or 0)
    end
  end

  -- Forget the moment of a job that begins or ends.
  function my.forget(id, shape)
    if shape ~= '' and shapes.word(shape, 'x') then call('ZREM', key('expires'), id) end
  end
end }, lazy)
