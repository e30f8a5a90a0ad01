-- lib moving: how items leave a queue for a queue of another protocol, and return.
--@include types gone page
local moving = {}

-- An id without an item is dropped, one that a client holds stays in `processing` alone. One that no job can have
-- elsewhere goes to the left end of `queue`.
function moving.take(run)
  return_taken()
  local ids, looked, taken, held, seen = call('LRANGE', key('queue'), -run.limit, -1), 0, {}, {}, {}
  for n = #ids, 1, -1 do
    local id = ids[n]
    local data = call('MGET', key('item:' .. id))[1]
    if not data then
      call('LREM', key('queue'), -1, id)
    elseif is_held(id, lease_of(id), claim_of(call('HGET', key('leased'), id)), data) then
      call('LREM', key('queue'), -1, id)
      held[#held + 1] = id
    elseif id == '' or #id > run.id_most or string.sub(id, 1, 1) == '@' then
      call('LREM', key('queue'), -1, id)
      call('LPUSH', key('queue'), id)
      run.unfit[#run.unfit + 1] = id
    elseif page.is_over(#data) then
      break
    elseif not seen[id] then
      seen[id] = true
      taken[#taken + 1] = id
      page.note({ id, data }, #data)
    end
    looked = looked + 1
  end
  if #taken > 0 then
    take_out(key('queue'), taken, call('LLEN', key('queue')) <= @COPIES_FEW@)
    for _, id in ipairs(taken) do call('DEL', key('item:' .. id)) end
    -- A client that held one earlier, and is late, must not find a copy of it.
    leave_processing(taken)
  end
  leave_to_holders(held)
  return looked
end

function moving.forget(row)
  if call('EXISTS', key('item:' .. row[1])) == 0 then remove_item(row[1]) end
end

function moving.back(row, command)
  -- An item that another client added meanwhile under this id replaces it, as in the queue.
  call('SETNX', key('item:' .. row[1]), row[2])
  call(command, key('queue'), row[1])
end
