-- lib hold: how a worker takes a job out of the list. One that a worker holds is in `progress`, which has no bytes for
-- two jobs: a copy of a job that is in progress, or kept outside the list, gets an id of its own. Else one entry would
-- stand for both, and the end of one would lose the other.
--@include back counts nexttokens

-- The same job with an id of its own. Nil for bytes that are no pair.
local function renamed(data, salt)
  local head, _, rest = string.match(data, PAIR)
  if not head then return nil end
  local hex = redis.sha1hex(salt .. ' ' .. data)
  return head .. table.concat({
    string.sub(hex, 1, 8), string.sub(hex, 9, 12), '4' .. string.sub(hex, 13, 15), 'a' .. string.sub(hex, 16, 18),
    string.sub(hex, 19, 30),
  }, '-') .. rest
end

-- The job under an id that no other job has. Nil: it has to wait until a job with these bytes, which are no pair, has
-- ended.
local function unmistakable(data, id, job, session)
  local other = records.of(id)
  if other and (other.s == 'failed' or other.s == 'broken') then
    records.forget(id, other)
    call('HDEL', key('meta'), 'newest_failed') -- the ended one gets another record
    other = nil
  end
  local is_free = call('HEXISTS', progress, data) == 0
  if other and other.d == data and is_free and other.v then
    lose(job.t, id, other) -- a monitor of the original returned it to the list
    other = nil
  end
  if not other and is_free then return data, id end
  local renewed = renamed(data, session .. digits(job.n))
  return renewed, renewed and name_of(renewed)
end

local hold = {
  is_phantom = function(data) return data == PHANTOM end,
  is_shown = function() return true end, -- originals know no workers

  -- What a wait took out of the list, just before the claim: the list, and how many. Where a worker leaves raw payloads
  -- to others, it may be one, and goes back to its place.
  ahead = function(passing)
    local waited = call('LLEN', taken)
    if not passing then return taken, waited end
    for _ = 1, math.min(waited, @MAX_LOOK@) do call('LMOVE', taken, waiting, 'LEFT', 'RIGHT') end
    return taken, 0
  end,

  -- Take a job out of its list. Returns its id and bytes; nil when it has to wait.
  take = function(source, data, job, micros, session)
    local own, id = unmistakable(data, name_of(data), job, session)
    if not own then return nil end
    call('RPOP', source)
    job.d, job.v = own, stamp(micros, job.n)
    call('HSET', progress, own, job.v)
    return id, own
  end,

  -- Whether originals look for a job in vain: each writes a phantom then, every 10 ms. A wait for the list would take
  -- all jobs before them.
  has_idle_originals = function(time)
    if call('HDEL', progress, PHANTOM) == 1 then
      call('HSET', key('meta'), 'idle_originals', time)
      return true
    end
    local seen = tonumber(call('HGET', key('meta'), 'idle_originals') or nil)
    return seen and seen <= time and time - seen < @IDLE_MS@
  end,
}
