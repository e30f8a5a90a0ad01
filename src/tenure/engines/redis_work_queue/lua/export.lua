-- export: take the waiting items at the right end of a queue out of it, for a queue of another protocol.
-- KEYS[1] prefix
-- ARGV move to limit bytes id_most
-- Returns: {how many ids were looked at, name of the move, its destination, ms since it began, {id, data}..., {id that
-- no job can have elsewhere...}}
-- Invariant: an item is in `queue` or in `meta:moving` (name, destination, time, then id and data of each), never in
-- both or in none. While `meta:moving` holds a move, the script returns it, so sending it again is harmless. An id
-- without an item is dropped; an id that a client holds stays in `processing` alone. An id that no job can have
-- elsewhere (empty, longer than `id_most`, with an @ at its beginning) goes to the left end of `queue`. At most `bytes`
-- of data, but one item at least.
--@include begin types gone
local move, to, limit, bytes, id_most = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
allow_when_full()
check_types()

local function answer(looked, unfit)
  local kept, rows = call('LRANGE', key('meta:moving'), 0, -1), {}
  for i = 4, #kept, 2 do
    rows[#rows + 1] = { kept[i], kept[i + 1] }
  end
  local age = kept[3] and clock() - kept[3] or 0
  return { looked or #rows, kept[1] or '', kept[2] or '', age, rows, unfit }
end

if call('EXISTS', key('meta:moving')) == 1 then
  return answer(nil, {})
end
return_taken()
local ids, looked, rows, unfit, held, seen = call('LRANGE', key('queue'), -limit, -1), 0, {}, {}, {}, {}
for n = #ids, 1, -1 do
  local id = ids[n]
  local data = call('MGET', key('item:' .. id))[1]
  if not data then
    call('LREM', key('queue'), -1, id)
  elseif is_held(id, lease_of(id), claim_of(call('HGET', key('leased'), id)), data) then
    call('LREM', key('queue'), -1, id)
    held[#held + 1] = id
  elseif id == '' or #id > id_most or string.sub(id, 1, 1) == '@' then
    call('LREM', key('queue'), -1, id)
    call('LPUSH', key('queue'), id)
    unfit[#unfit + 1] = id
  elseif #rows > 0 and #data > bytes then
    break
  elseif not seen[id] then
    bytes, seen[id] = bytes - #data, true
    rows[#rows + 1] = id
    call('RPUSH', key('meta:moving'), id, data)
  end
  looked = looked + 1
end
if #rows > 0 then
  call('LPUSH', key('meta:moving'), (clock()), to, move)
  take_out(key('queue'), rows, call('LLEN', key('queue')) <= @COPIES_FEW@)
  for _, id in ipairs(rows) do
    call('DEL', key('item:' .. id))
  end
  -- A client that held one earlier, and is late, must not find a copy of it.
  leave_processing(rows)
end
leave_to_holders(held)
return answer(looked, unfit)
