-- lib plain: raw payloads in the queues of workers that have no handler for them. They are other clients' work, so they are
-- left to them: such a worker is noted in `passing:<worker>`, and its claims pass them by. `passing` has the hashes of those
-- that are known as raw, and would have to be read to be known again.

-- Whether this is no envelope for sure. The rest may be one: records.py knows.
local function is_plain(data)
  return not string.find(data, '^[ \t\r\n]*{') or not string.find(data, '"leasehold"', 1, true)
end

-- The same by the first bytes of an item: true when they tell.
local function is_plain_by_head(id)
  local head = redis.pcall('GETRANGE', key('item:' .. id), 0, 63)
  return type(head) == 'string' and string.find(head, '^[ \t\r\n]*[^ \t\r\n{]') ~= nil
end

-- It is forgotten as a whole, ten minutes after the first of them was noted. False: there are too many.
local function note_raw(id, hash)
  local noted = call('HLEN', key('passing'))
  if noted >= 10000 then return false end
  call('HSET', key('passing'), id, hash)
  if noted == 0 then call('PEXPIRE', key('passing'), @ANSWER_TTL_MS@) end
  return true
end
