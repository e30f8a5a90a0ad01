-- lib large: large records. Redis serves no other client while a call reads them, so a call reads a limited number of
-- bytes. `meta.large` is set while there may be large records; without it no call asks for sizes.
-- Defines: has_large, large, note_size, readable, some_of. Redis: reads and writes.
local large = nil
-- Whether there may be large records. `known`: what the caller has read.
local function has_large(known)
  if known ~= nil then large = known end
  if large == nil then large = call('HEXISTS', key('meta'), 'large') == 1 end
  return large
end

-- Note the size of a record, or of an error, that a job which has not ended keeps.
local function note_size(bytes)
  if bytes > @LARGE_BYTES@ and not has_large() then
    call('HSET', key('meta'), 'large', '1')
    large = true
  end
end

-- How many of these jobs, from the first on, one call may read within this number of bytes: at least one, if there is
-- any.
local function readable(ids, bytes)
  if not has_large() then return #ids end
  for n, id in ipairs(ids) do
    bytes = bytes - call('HSTRLEN', key('jobs'), id) - call('HSTRLEN', key('tries'), id)
    if bytes <= 0 then return n end
  end
  return #ids
end

-- The jobs that one call may read.
local function some_of(ids) return { unpack(ids, 1, readable(ids, @READ_BYTES@)) } end
