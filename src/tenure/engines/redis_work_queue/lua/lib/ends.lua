-- lib ends: the counts of a job, and how a job ends that is not completed. For other clients it is gone then: its item
-- is kept aside in `kept` until a caller retries or discards it, or its record expires.

-- Failures, crashes, and doubtful crashes, which another job that ran at the same time may have caused. Counts of an
-- earlier item of the same id do not count.
local function counted(text, hash)
  if not text then return 0, 0, 0 end
  local failures, crashes, of, known = string.match(text, '^(%d+) (%d+) (%x+) ?(%d*)')
  if not failures or (hash and of ~= hash) then return 0, 0, 0 end
  return tonumber(failures), tonumber(crashes), crashes - (tonumber(known) or 0)
end

-- `doubtful`: the third value of `counted`; nil: all crashes.
local function attempts_text(failures, crashes, hash, error, doubtful)
  local known = crashes - (doubtful or crashes)
  return failures .. ' ' .. crashes .. ' ' .. hash .. (known > 0 and ' ' .. known or '') .. (error or '')
end

-- How often leases of the drop-in client ended without a completion of this item.
local function expiries_of(text, hash)
  local of, expiries = string.match(text or '', '^%d+ %d+ (%x+)[^\n]* e(%d+)')
  return of == hash and expiries or nil
end

-- The text after the counts: a line break and the last error, or nothing.
local function last_error(text) return string.match(text or '', '\n.*$') or '' end

local function forget_end(state, ids)
  if #ids > 0 then
    call('HDEL', key('kept'), unpack(ids))
    call('HDEL', key('ended'), unpack(ids))
    call('ZREM', key(state), unpack(ids))
  end
end

-- Forget expired records, and records above the limit: those that expire first go first.
local function prune(config, state, time, limit)
  local old = call('ZRANGEBYSCORE', key(state), '-inf', time, 'LIMIT', 0, limit)
  local over = call('ZCARD', key(state)) - #old - config.failed_max
  forget_end(state, old)
  if over > 0 and #old < limit then
    local more = call('ZRANGE', key(state), 0, math.min(over, limit) - 1)
    forget_end(state, more)
    for _, id in ipairs(more) do old[#old + 1] = id end
  end
  if #old > 0 then call('HINCRBY', key('meta'), 'trimmed_' .. state, #old) end
  return #old
end

-- How the item of this id that is aside has ended: failed, broken, cancelled or unroutable; nil for none. Another
-- client may have added another item of the id since.
local function end_of(id) return string.match(call('HGET', key('ended'), id) or '', '^%S+') end

-- Whether the item aside is still to run, so that a later item of its id must not replace it.
local function is_awaited(id) return end_of(id) == 'unroutable' end

-- How long a later item waits for the one that is aside, before it is tried again.
local TAKEN_MS = 600000

-- Let an item wait as for a retry, with a reason, since it has no place aside. The caller puts it into `processing`.
local function postpone(config, time, id, data, failures, crashes, body)
  call('HSET', key('attempts'), id, attempts_text(failures, crashes, hash_of(data), '\n' .. body))
  set_lease(id, '~' .. digits(time + TAKEN_MS), TAKEN_MS + config.wire)
  call('ZADD', key('later'), time + TAKEN_MS, id)
end

-- Write an end. It replaces the end of an earlier item of the id.
local function keep_end(state, id, data, line, body)
  local before = end_of(id)
  if before == 'failed' or before == 'broken' or before == 'cancelled' then
    call('ZREM', key(before), id)
  end
  call('HSET', key('kept'), id, data)
  call('HSET', key('ended'), id, state .. ' ' .. line .. '\n' .. body)
end

-- Set an item aside. The end is written first, so that an error between the two leaves the item in both places.
local function set_aside(state, id, data, line, body)
  keep_end(state, id, data, line, body)
  call('DEL', key('item:' .. id))
  end_lease(id)
  call('HDEL', key('attempts'), id)
  call('HDEL', key('passing'), id)
end

-- End in failed, broken or cancelled: the whole item is kept, with the reason. `aside`: it is aside already, and
-- `item:<id>` is another one. True: it has no place aside, and the caller puts it into `processing`.
local function end_badly(config, time, state, id, data, failures, crashes, token, worker, claimed, body, aside)
  local line = table.concat({ time, time + config.failed_ttl, failures, crashes, token, claimed, worker }, ' ')
  if aside then
    keep_end(state, id, data, line, body)
  elseif is_awaited(id) then
    postpone(config, time, id, data, failures, crashes, body)
    return true
  else
    set_aside(state, id, data, line, body)
  end
  call('ZADD', key(state), time + config.failed_ttl, id)
  call('HINCRBY', key('meta'), state, 1)
  prune(config, state, time, 100)
end
