-- purge: remove or cancel up to `limit` items in one state, the oldest first.
-- KEYS[1] prefix
-- ARGV session number config state limit cancel body
-- Returns: '<looked at> <removed>'
-- Invariant: nothing of a removed item is left; a cancelled item is aside in `kept` and in `cancelled`. Where an id has
-- an item aside and another one that other clients see, only the one in this state goes. Items that stay are not
-- counted.
--@include begin types answers leases claims ends remove transition
local session, number, state, limit = ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
local config, cancelling, body = cjson.decode(ARGV[3]), ARGV[6] == '1', ARGV[7]
local again = transition(session, number)
if again then return again end
local time, ids, parked = clock(), {}, nil
if state == 'ready' then
  return_taken()
  ids = call('RPOP', key('queue'), limit) or {}
elseif state == 'scheduled' then
  ids = call('ZRANGE', key('later'), 0, limit - 1)
elseif state == 'unroutable' then
  local task = call('SRANDMEMBER', key('unroutable'))
  parked = task and 'unroutable:' .. task
  ids = parked and call('ZRANGE', key(parked), 0, limit - 1) or {}
else
  ids = call('ZRANGE', key(state), 0, limit - 1)
end
local removed, stay, held, off = 0, 0, {}, {}
local live = state == 'ready' or state == 'scheduled'
look_for_copies()

-- The retries that another program's cleaner has put into the queue, when their lease had ended.
local leases, astray, moved = state == 'scheduled' and #ids > 0 and leases_of(ids) or {}, {}, {}
for n, lease in ipairs(leases) do astray[#astray + 1] = not lease and ids[n] or nil end
for _, id in ipairs(not_in_processing(astray)) do moved[id] = true end

-- Whether another client holds the item by now, or it is not the item that waited for a retry.
local function is_other(id, data)
  local lease = data and lease_of(id)
  if state == 'scheduled' then
    return data and (moved[id] or not waits_for_retry(id, lease, data))
  end
  return lease and is_held(id, lease, claim_of(call('HGET', key('leased'), id)), data)
end

for _, id in ipairs(ids) do
  local data = live and call('MGET', key('item:' .. id))[1]
  local ended = not live and end_of(id) == state and call('HGET', key('ended'), id) or nil
  local there = ended or data
  if live and is_other(id, data) then
    if state == 'ready' then
      held[#held + 1] = id -- the queue had a second copy
    else
      call('ZREM', key('later'), id)
    end
  elseif cancelling and there then
    if cancel(config, time, id, live and 'popped' or state, ended, body) then
      removed = removed + 1
      if live then
        off[#off + 1] = id
        call('ZREM', key('later'), id)
      end
    else
      stay = stay + 1
      if state == 'ready' then call('LPUSH', key('queue'), id) end
    end
  elseif not live and not ended then
    call('ZREM', key(parked or state), id) -- listed, and of another state by now
  else
    if not live then unlist(id, state, ended) end
    erase(id, ended)
    off[#off + 1] = id
    removed = removed + (there and 1 or 0)
  end
end
leave_to_holders(held)
if state == 'scheduled' then
  local there, queued = leave_processing(off), {}
  for _, id in ipairs(off) do
    if not there[id] then queued[#queued + 1] = id end
  end
  if #queued > 0 then take_out(key('queue'), queued, false) end
end
return remember(session, number, (#ids - stay) .. ' ' .. removed)
