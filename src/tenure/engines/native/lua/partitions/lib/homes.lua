-- lib homes: which partition a job belongs to, by the map that this partition has noted (lib noted). core/partitions.py
-- computes the
-- same: the jump consistent hash of Lamping and Veach, of the CRC-32 of the lane, the unique key or the id.
-- Defines: homes. Redis: reads.
--@include lanes

-- The hash: a part of `homes`.
local function add_hash(my)
  local NIBBLES = {
    [0] = 0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
    0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
  }

  local function crc32(text)
    local crc = 0xFFFFFFFF
    for n = 1, #text do
      crc = bit.bxor(crc, string.byte(text, n))
      crc = bit.bxor(NIBBLES[bit.band(crc, 15)], bit.rshift(crc, 4))
      crc = bit.bxor(NIBBLES[bit.band(crc, 15)], bit.rshift(crc, 4))
    end
    return bit.bnot(crc) % 4294967296
  end

  -- a * b + more, of numbers of 64 bits: four of 16 bits each, the lowest first.
  local function times(a, b, more)
    local found, carry = {}, more
    for n = 1, 4 do
      for k = 1, n do carry = carry + a[k] * b[n + 1 - k] end
      found[n] = carry % 65536
      carry = math.floor(carry / 65536)
    end
    return found
  end

  -- The home of a text: with the number of partitions, or with the number before.
  function my.home_of(text, number)
    number = number or my.number
    local crc = crc32(text)
    local state = times({ crc % 65536, math.floor(crc / 65536), 0, 0 }, { 0x7C15, 0x7F4A, 0x79B9, 0x9E37 }, 0)
    local home, following = -1, 0
    while following < number do -- at most as often as there are partitions
      home = following
      state = times(state, { 0xB0FD, 0x87B0, 0x2EE6, 0x27BB }, 1)
      local high = math.floor((state[4] * 65536 + state[3]) / 2)
      following = math.floor((home + 1) * (2147483648 / (high + 1)))
    end
    return home
  end
end

local homes = setmetatable({ function(my)
  local noted = call('HGET', key('settings'), 'map') or '0:1:0:0:'
  my.version, my.number, my.before, my.partition = string.match(noted, '^(%d+):(%d+):(%d+):(%d+):')
  my.version, my.before = my.version or '0', my.before or '0' -- of a note of another program
  my.number, my.partition = tonumber(my.number or 1), tonumber(my.partition or 0)
  -- Whether the number changes, and whether the queue has or will have several partitions.
  my.changes = my.before ~= '0'
  my.is_parted = my.changes or my.number > 1
  add_hash(my)

  -- A name in a record, as it was before it was encoded.
  local function decoded(name)
    return (string.gsub(name, '%%(%x%x)', function(code) return string.char(tonumber(code, 16)) end))
  end

  function my.of_lane(lane, number) return my.home_of('lane ' .. decoded(lane), number) end

  function my.of_key(unique, number) return my.home_of('key ' .. decoded(unique), number) end

  function my.of(id, shape, number)
    local lane, unique = string.match(' ' .. shape, ' l=(%S+)'), string.match(' ' .. shape, ' u=%a:(%S+)')
    return lane and my.of_lane(lane, number) or unique and my.of_key(unique, number) or my.home_of(id, number)
  end

  -- Whether anything of a lane is in this partition: jobs that wait or occupy it, or that it is parked or on hold.
  function my.has_lane(lane)
    return call('EXISTS', key('lane:' .. lane)) == 1 or lanes.busy_of(lane) > 0 or lanes.is_aside(lane)
  end
end }, lazy)
