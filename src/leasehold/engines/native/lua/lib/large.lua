-- lib large: records that take long to read, while Redis serves nobody else. `meta.large` says that there may be some: else
-- nobody needs to ask for sizes.
local large = nil
local function has_large()
  if large == nil then
    large = call('HEXISTS', key('meta'), 'large') == 1
  end
  return large
end

-- To be told of every record, and every error, that is kept for a job which has not ended.
local function note_size(bytes)
  if bytes > @LARGE_BYTES@ and not has_large() then
    call('HSET', key('meta'), 'large', '1')
    large = true
  end
end

-- How many of these jobs, from the first on, may be read with so many bytes: at least one, if there is any.
local function readable(ids, bytes)
  if not has_large() then
    return #ids
  end
  for n, id in ipairs(ids) do
    bytes = bytes - call('HSTRLEN', key('jobs'), id) - call('HSTRLEN', key('tries'), id)
    if bytes <= 0 then
      return n
    end
  end
  return #ids
end

-- These of the jobs, as a list of their own.
local function some_of(ids)
  return { unpack(ids, 1, readable(ids, @READ_BYTES@)) }
end
