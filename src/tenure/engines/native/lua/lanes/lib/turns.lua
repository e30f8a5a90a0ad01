-- lib turns: the order in which lanes are served. `turns` has lanes with a next job that may be claimed, and shares
-- with such lanes. A lane with a name that begins with `@` is internal: all jobs without a lane that have the same
-- limits and the same share wait in it, and none of them occupies it.
-- Defines: is_internal, turns. Redis: reads and writes.
--@include lazy
local function is_internal(lane) return string.byte(lane) == 64 end

local turns = setmetatable({ function(my)
  -- The share of an internal lane. The lanes of a share take their turns in `share:<share>`, and the share, as
  -- `$<share>`, in `turns`.
  local function share_of(lane) return string.match(lane, '^@[^@]*@(.+)$') end

  -- The lanes with the first turns, about `count` of them.
  function my.in_turn(count)
    local found = {}
    for _, entry in ipairs(call('LRANGE', key('turns'), 0, count - 1)) do
      local share = string.match(entry, '^%$(.*)$')
      for _, lane in ipairs(share and call('LRANGE', key('share:' .. share), 0, count - 1) or { entry }) do
        found[#found + 1] = lane
      end
    end
    return found
  end

  -- Give lanes a turn: the next with `first`, else the last. `serving`: the list of the share that has its turn at a
  -- claim.
  function my.add(lanes, first)
    local push, entries = first and 'LPUSH' or 'RPUSH', {}
    for _, lane in ipairs(lanes) do
      local share = share_of(lane)
      if not share then
        entries[#entries + 1] = lane
      elseif call(push, key('share:' .. share), lane) == 1 and my.serving ~= key('share:' .. share) then
        entries[#entries + 1] = '$' .. share
      end
    end
    if #entries > 0 then call(push, key('turns'), unpack(entries)) end
  end

  function my.remove(lane)
    local share = share_of(lane)
    if share then
      call('LREM', key('share:' .. share), 1, lane)
      if call('EXISTS', key('share:' .. share)) == 1 then return end
    end
    call('LREM', key('turns'), 1, share and '$' .. share or lane)
  end
end }, lazy)
