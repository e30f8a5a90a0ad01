-- purge: remove, or cancel, up to `limit` of the items in one state, the oldest first.
-- KEYS[1] prefix
-- ARGV session number config state limit cancel body
-- Returns: '<looked at> <removed>'
-- Invariant: nothing of what was removed is left; what was cancelled is aside in `kept` and in `cancelled`. Where an id has an
-- item aside and another that other clients see, only the one in this state goes. Those that stay are not counted as
-- looked at.
--@include begin types remember config leases claims ends remove
local session, number, state, limit = ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
local config, cancelling, body = configure(ARGV[3]), ARGV[6] == '1', ARGV[7]
allow_when_full()
--@include once
check_types()
local time, ids, parked = clock(), {}, nil
if state == 'ready' then
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
local removed, stay = 0, 0
local live = state == 'ready' or state == 'scheduled'
for _, id in ipairs(ids) do
  local data, lease = live and call('MGET', key('item:' .. id))[1], live and lease_of(id)
  local held = state == 'ready' and lease and data and is_held(id, lease, claim_of(call('HGET', key('leased'), id)), data)
  local ended = not live and end_of(id) == state and call('HGET', key('ended'), id) or nil
  local there = ended or data
  if held then
    -- Somebody holds it, and the queue has a second copy: it is left to its holder.
    call('LREM', key('processing'), 0, id)
    call('LPUSH', key('processing'), id)
  elseif state == 'scheduled' and data and not waits_for_retry(id, data) then
    -- Of an earlier item of the id, which another client has completed.
    call('ZREM', key('later'), id)
  elseif cancelling and there then
    if cancel(config, time, id, state == 'ready' and 'popped' or state, ended, body) then
      removed = removed + 1
    else
      stay = stay + 1
      if state == 'ready' then
        call('LPUSH', key('queue'), id)
      end
    end
  elseif not live and not ended then
    call('ZREM', key(parked or state), id) -- listed, and of another state by now
  else
    if state ~= 'ready' then
      unlist(id, state, ended)
    end
    erase(id, ended)
    removed = removed + (there and 1 or 0)
  end
end
return remember(session, number, (#ids - stay) .. ' ' .. removed)
