-- lib plain: raw payloads in the queues of workers that have no handler for them. Other clients work on these, so the
-- claims of such a worker, which is noted in `passing:<worker>`, pass them by. `passing` has the hashes of items that a
-- worker must read to know them as raw.

-- Whether an item is surely no envelope. The others may be one: records.py decides.
local function is_plain(data)
  return not string.find(data, '^[ \t\r\n]*{') or not string.find(data, '"tenure"', 1, true)
end

-- Whether the first bytes of an item show that it is no envelope.
local function is_plain_by_head(id)
  local head = redis.pcall('GETRANGE', key('item:' .. id), 0, 63)
  return type(head) == 'string' and string.find(head, '^[ \t\r\n]*[^ \t\r\n{]') ~= nil
end

-- Note a raw item. All notes are forgotten ten minutes after the first one. False: there are too many.
local function note_raw(id, hash)
  local noted = call('HLEN', key('passing'))
  if noted >= 10000 then return false end
  call('HSET', key('passing'), id, hash)
  if noted == 0 then call('PEXPIRE', key('passing'), @ANSWER_TTL_MS@) end
  return true
end
