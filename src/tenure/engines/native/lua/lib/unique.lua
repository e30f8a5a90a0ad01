-- lib unique: keys that one job at a time may have. `unique` has <until when, or 0: until the job frees it> <id>.
-- Modes: s until the job starts, e until it ends, w for a time.
-- Defines: has_key, uniques. Redis: reads and writes.
--@include shape

-- Whether a job with this shape has a key.
local function has_key(shape)
  return string.find(shape, 'u=', 1, true) ~= nil and string.find(' ' .. shape, ' u=', 1, true) ~= nil
end

local uniques = setmetatable({ function(my)
  function my.key_of(shape) return string.match(' ' .. shape, ' u=(%a):(%S+)') end

  -- The shape of a job that has a key, with another one.
  function my.with_key(shape, unique)
    return string.sub(string.gsub(' ' .. shape, '( u=%a:)%S+', function(mode) return mode .. unique end), 2)
  end

  -- Until when a job has a key; nil: it has not.
  function my.lasts(unique, id)
    local lasts, owner = string.match(call('HGET', key('unique'), unique) or '', '^(%d+) (.*)$')
    return owner == id and lasts or nil
  end

  -- The job that has a key and keeps it: it has not ended, blocks its lane, or its time is not over.
  function my.rival(unique, time)
    local lasts, id = string.match(call('HGET', key('unique'), unique) or '', '^(%d+) (.*)$')
    if id and lasts ~= '0' then return tonumber(lasts) > time and id or nil end
    return id and (call('HEXISTS', key('jobs'), id) == 1 or call('HEXISTS', key('busy'), id) == 1) and id or nil
  end

  function my.own_key(unique, id, lasts)
    call('HSET', key('unique'), unique, lasts .. ' ' .. id)
    if lasts == '0' then
      call('ZREM', key('windows'), unique)
    else
      call('ZADD', key('windows'), lasts, unique)
    end
  end

  function my.drop_key(unique)
    call('HDEL', key('unique'), unique)
    call('ZREM', key('windows'), unique)
  end

  -- Free the key of a job that has started or ended. With `gone` the job was cancelled or removed, which ends the time
  -- of its key, too. A job that waits to run after this one gets the key and its place in line.
  function my.free_key(shape, id, gone)
    local mode, unique = my.key_of(shape)
    if not mode then return end
    local lasts, owner = string.match(call('HGET', key('unique'), unique) or '', '^(%d+) (.*)$')
    local following = call('HGET', key('again'), unique)
    if following == id then
      call('HDEL', key('again'), unique)
    elseif owner == id and following then
      my.own_key(unique, following, '0')
      shapes.place_late(following, shape_of(call('HGET', key('jobs'), following)))
      call('HDEL', key('again'), unique)
    elseif owner == id and (gone or mode ~= 'w' or lasts == '0') then
      my.drop_key(unique)
    end
  end
end }, lazy)
