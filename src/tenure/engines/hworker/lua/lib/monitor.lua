-- lib monitor: jobs of other clients that are in progress for too long go to the front of the list, as the original's
-- monitor does. Their age is counted from when their entry was first seen here: the clock of another machine may be
-- wrong. A pass goes through `progress` in pages; `observed` has the entries of the last pass, `observing` the entries
-- of this one.
--@include jobs

-- Return a job to the list that has been in progress for too long. Returns whether it was returned.
local function check_entry(config, time, data, value)
  if data == PHANTOM then
    call('HDEL', progress, data)
    call('HINCRBY', key('meta'), 'phantoms', 1)
    return false
  end
  local job = records.of(name_of(data))
  if job and job.d == data and job.v == value then return false end
  local field = redis.sha1hex(data)
  local seen, last = string.match(call('HGET', key('observed'), field) or '', '^(%d+) (.*)$')
  if last ~= value then seen = time end
  if is_stamp(value) and time - tonumber(seen) < config.timeout then
    call('HSET', key('observing'), field, seen .. ' ' .. value)
    return false
  end
  call('HDEL', progress, data)
  call('RPUSH', waiting, data)
  return true
end

-- Look at a page. Returns how many were returned.
local function observe(config, time, limit)
  if call('EXISTS', progress) == 0 then return 0 end
  local cursor = call('HGET', key('meta'), 'observing') or '0'
  local page, moved = call('HSCAN', progress, cursor, 'COUNT', limit), 0
  for n = 1, #page[2], 2 do
    if check_entry(config, time, page[2][n], page[2][n + 1]) then moved = moved + 1 end
  end
  if page[1] ~= '0' then
    call('HSET', key('meta'), 'observing', page[1])
  else
    call('HDEL', key('meta'), 'observing')
    if call('EXISTS', key('observing')) == 1 then
      call('RENAME', key('observing'), key('observed'))
      call('PEXPIRE', key('observed'), @META_TTL_MS@)
    else
      call('DEL', key('observed'))
    end
  end
  return moved
end
