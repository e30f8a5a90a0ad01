-- lib expire: end the jobs that have not begun in time.
-- Defines: expire. Redis: reads and writes.
--@include find ends deadlines cancelone

-- End up to `limit` jobs. Returns how many.
local function expire(config, time, limit)
  local due = call('ZRANGEBYSCORE', key('expires'), '-inf', time, 'LIMIT', 0, limit)
  for _, id in ipairs(due) do
    local state, detail, record = find(id)
    -- The job of an entry may have moved to another partition, and its id may be another job's by now.
    if shapes.word(shape_of(record), 'x') then end_waiting(config, id, deadlines.BODY, state, detail, record) end
    call('ZREM', key('expires'), id)
  end
  if #due == 0 and call('EXISTS', key('expires')) == 0 then call('HDEL', key('meta'), 'expires') end
  return #due
end
