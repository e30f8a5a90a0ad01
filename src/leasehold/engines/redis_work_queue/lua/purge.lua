-- purge: remove, or cancel, up to `limit` of the items in one state, the oldest first.
-- KEYS[1] prefix
-- ARGV session number config state limit cancel body
-- Returns: '<looked at> <removed>'
-- Invariant: nothing of what was removed is left; what was cancelled is aside in `kept` and in `cancelled`.
--@include begin types remember config leases claims ends remove
local session, number, state, limit = ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
local config, cancelling, body = configure(ARGV[3]), ARGV[6] == '1', ARGV[7]
allow_when_full()
--@include once
check_types()
local time, ids = clock(), {}
if state == 'ready' then
  ids = call('RPOP', key('queue'), limit) or {}
elseif state == 'scheduled' then
  ids = call('ZRANGE', key('later'), 0, limit - 1)
elseif state == 'unroutable' then
  local task = call('SRANDMEMBER', key('unroutable'))
  ids = task and call('ZRANGE', key('unroutable:' .. task), 0, limit - 1) or {}
else
  ids = call('ZRANGE', key(state), 0, limit - 1)
end
local removed = 0
for _, id in ipairs(ids) do
  local held = state == 'ready' and lease_of(id)
  local there = call('EXISTS', key('item:' .. id)) == 1 or call('HEXISTS', key('ended'), id) == 1
  if held then
    -- Somebody holds it, and the queue has a second copy: it is left to its holder.
    call('LREM', key('processing'), 0, id)
    call('LPUSH', key('processing'), id)
  elseif cancelling and there then
    cancel(config, time, id, state == 'ready' and 'popped' or state, call('HGET', key('ended'), id), body)
    removed = removed + 1
  else
    if state ~= 'ready' then
      unlist(id, state, call('HGET', key('ended'), id))
    end
    erase(id)
    removed = removed + (there and 1 or 0)
  end
end
return remember(session, number, #ids .. ' ' .. removed)
