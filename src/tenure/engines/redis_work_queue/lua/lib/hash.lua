-- lib hash: of a payload; of a large one its size and its beginning, so that the time of a call has a limit. `size`: of
-- the whole, when `data` is only its beginning. The drop-in makes the same hash of what it has leased (`hash_of` in its
-- base.py).
local function hash_of(data, size)
  size = size or #data
  if size > 65536 then data = size .. ' ' .. string.sub(data, 1, 65536) end
  return string.sub(redis.sha1hex(data), 1, 16)
end
