-- lib unique: keys that only one job may have. `unique` says which: <until when, 0: until it is freed> <id>.
-- Modes: s until started, e until ended, w for a time.

local uniques = setmetatable({ function(my)
  local function key_of(shape)
    return string.match(' ' .. shape, ' u=(%a):(%S+)')
  end

  -- Who has the key: id, and until when.
  local function owner_of(unique, time)
    local lasts, id = string.match(call('HGET', key('unique'), unique) or '', '^(%d+) (.*)$')
    if not id or (lasts ~= '0' and tonumber(lasts) <= time) then
      return nil
    end
    return id, tonumber(lasts)
  end

  -- The job that has the key, if it is one that keeps it: it has not ended, blocks its lane, or its time is not over.
  local function rival(unique, time)
    local other, lasts = owner_of(unique, time)
    if not other or lasts > 0 then
      return other
    end
    return (call('HEXISTS', key('jobs'), other) == 1 or call('HEXISTS', key('busy'), other) == 1) and other or nil
  end

  local function own_key(unique, id, lasts)
    call('HSET', key('unique'), unique, lasts .. ' ' .. id)
    if lasts == '0' then
      call('ZREM', key('windows'), unique)
    else
      call('ZADD', key('windows'), lasts, unique)
    end
  end

  local function drop_key(unique)
    call('HDEL', key('unique'), unique)
    call('ZREM', key('windows'), unique)
  end

  -- A job that has its key needs it no longer: it was started, or has ended; `gone`: it was cancelled or removed, so a time
  -- for which it was to be the only one is over as well. The job that waits to run after it is next.
  local function free_key(shape, id, gone)
    local mode, unique = key_of(shape)
    if not mode then
      return
    end
    local lasts, owner = string.match(call('HGET', key('unique'), unique) or '', '^(%d+) (.*)$')
    local following = call('HGET', key('again'), unique)
    if following == id then
      call('HDEL', key('again'), unique)
    elseif owner == id and following then
      own_key(unique, following, '0')
      shapes.place_or_put_off(following, shape_of(call('HGET', key('jobs'), following)))
      call('HDEL', key('again'), unique)
    elseif owner == id and (gone or mode ~= 'w' or lasts == '0') then
      drop_key(unique)
    end
  end

  my.key_of = key_of
  my.rival = rival
  my.own_key = own_key
  my.drop_key = drop_key
  my.free_key = free_key
end }, unmade)
