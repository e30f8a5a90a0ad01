-- lib begin: names for what every operation uses. All keys of a queue are its prefix and a suffix. Other clients of the
-- wire format know `queue`, `processing`, `cleaning`, `item:<id>` and leases; all other keys are ours alone.
local call = redis.call
local prefix = KEYS[1]

local function key(suffix)
  return prefix .. ':' .. suffix
end

-- Redis' own clock: milliseconds, and microseconds for tokens.
local function clock()
  local t = call('TIME')
  local seconds, micros = tonumber(t[1]), tonumber(t[2])
  return seconds * 1000 + math.floor(micros / 1000), seconds * 1000000 + micros
end

-- Tokens exceed the 14 digits that Lua prints of a number by itself.
local function digits(number)
  return string.format('%.0f', number)
end

-- The keys of many ids.
local function keys_of(kind, ids)
  local names = {}
  for n, id in ipairs(ids) do
    names[n] = key(kind .. id)
  end
  return names
end

-- At maxmemory Redis refuses a script whose first write may need memory. What lets work end must go on, so it writes
-- something that needs none first. (The `#!lua` flag for this does not exist on Redis 6.2.)
local function allow_when_full()
  call('DEL', key('full'))
end

-- Another program's data at one of our names is an error before anything has changed: Lua has no rollback. The keys of
-- single items and leases are read with MGET, to which a wrong type is the same as nothing.
local function check_types()
  call('LLEN', key('queue'))
  call('LLEN', key('processing'))
  for _, suffix in ipairs({ 'leased', 'attempts', 'meta', 'kept', 'ended' }) do
    call('HLEN', key(suffix))
  end
  -- An intersection with a key that is never there reads nothing, but looks at the types of all.
  call(
    'ZINTER', 10, key('full'), key('holders'), key('suspects'), key('due'), key('later'), key('unleased'), key('stray'),
    key('failed'), key('broken'), key('cancelled')
  )
  call('SCARD', key('unroutable'))
end
