-- lib passing: raw payloads that a worker leaves to others, since it has no handler for them. They keep their places
-- and their order. `waiting` is the list; `envelope_in(value)` finds the envelope in the decoded bytes of a job.
-- `passing:<worker>` is there from when the worker returned the first one: `at`, how many entries at the right end were
-- looked at; `due`, when the next look may begin; `returned`, the tokens of payloads that it returned last, by their
-- SHA-1; and the SHA-1 of payloads that only look like the call of a task.
local LOOK_MS, LOOK_MOST, LOOK_PAGE, NAMES_MOST, RETURNED_MOST = 1000, 2000, 50, 1000, 200

-- Whether a job is the call of a task. What Lua cannot decode may be one.
local function is_call(data)
  if not string.find(data, '"tenure"', 1, true) then return false end
  local is_read, value = pcall(cjson.decode, data)
  if not is_read then return true end
  local envelope = envelope_in(value)
  return type(envelope) == 'table' and type(envelope.tenure) == 'number' and type(envelope.task) == 'string'
end

-- Note that a worker has no handler for raw payloads, and return these to the right end of the list, in the order of
-- their claims. `raw`: {token, bytes}.... Those that it returned just before may belong between them.
local function return_raw(worker, raw)
  if #raw == 0 then return end
  local names, returned = key('passing:' .. worker), {}
  if call('HLEN', names) > NAMES_MOST then call('DEL', names) end
  for _, one in ipairs(raw) do
    if is_call(one[2]) then call('HSET', names, redis.sha1hex(one[2]), 1) end
  end
  local text = call('HGET', names, 'returned')
  local before = text and cmsgpack.unpack(text) or {}
  for _ = 1, RETURNED_MOST do
    local data = call('LINDEX', waiting, -1)
    local token = data and before[redis.sha1hex(data)]
    if not token then break end
    call('LREM', waiting, -1, data)
    raw[#raw + 1] = { token, data }
  end
  table.sort(raw, function(a, b) return a[1] > b[1] end)
  for n, one in ipairs(raw) do
    call('RPUSH', waiting, one[2])
    if n > #raw - RETURNED_MOST then returned[redis.sha1hex(one[2])] = one[1] end
  end
  call('HSET', names, 'returned', cmsgpack.pack(returned))
  call('PEXPIRE', names, @ANSWER_TTL_MS@)
end

-- Whether a worker that passes by raw payloads leaves this job where it is.
local function is_left(worker, data)
  return not is_call(data) or call('HEXISTS', key('passing:' .. worker), redis.sha1hex(data)) == 1
end

-- Find up to `most` jobs for a worker behind the first `at` entries, the next one first. Answers them, and how far it
-- looked.
local function find_behind(worker, at, most)
  local found, last, bytes = {}, at + LOOK_MOST, 0
  while at < last and #found < most and bytes < @CLAIM_BYTES@ do
    local page = call('LRANGE', waiting, -at - LOOK_PAGE, -at - 1)
    for n = #page, 1, -1 do
      if #found == most then return found, at end
      at, bytes = at + 1, bytes + #page[n]
      if not is_left(worker, page[n]) then found[#found + 1] = page[n] end
    end
    if #page < LOOK_PAGE then return found, 0 end
  end
  return found, at
end

-- Bring up to `most` jobs of a worker from behind raw payloads to the right end of the list, in their order. A look
-- that found fewer is followed by a pause. Answers how many ms of it are left, when there was no look; else nil.
local function look_behind(worker, time, most)
  local names = key('passing:' .. worker)
  local state = call('HMGET', names, 'at', 'due')
  local at, due = tonumber(state[1] or 0), tonumber(state[2] or 0)
  if due > time and due <= time + LOOK_MS then return due - time end
  if at >= call('LLEN', waiting) then at = 0 end
  local found, reached = find_behind(worker, at, most)
  for _, data in ipairs(found) do call('LREM', waiting, -1, data) end
  for n = #found, 1, -1 do call('RPUSH', waiting, found[n]) end
  call('HSET', names, 'at', math.max(0, reached - #found), 'due', #found < most and digits(time + LOOK_MS) or 0)
  return nil
end
