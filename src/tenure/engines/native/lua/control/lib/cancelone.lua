-- lib cancelone: cancel one job.
-- Needs: clock, counted, end_badly, find, place_of, take_out. Defines: cancel_one. Redis: reads and writes.

-- End a job that waits, or ask the worker of one that is active. Returns 1 for ended, 2 for asked, and 0 when there is
-- no such job, or it has ended. `signal`: how the channel of a worker begins; `queue`: the message.
local function cancel_one(config, id, body, signal, queue)
  local state, detail, record = find(id)
  if state == 'active' then
    call('HSET', key('cancelling'), id, body)
    -- The message is a hint: the worker's next heartbeat brings the same.
    call('PUBLISH', signal .. detail, queue)
    return '2'
  elseif state ~= 'ready' and state ~= 'scheduled' and state ~= 'unroutable' then
    return '0'
  end
  local found = place_of(id, state, detail, record)
  local failures, crashes = counted(call('HGET', key('tries'), id))
  end_badly(config, clock(), 'cancelled', id, failures, crashes, '0', '-', '0', body)
  take_out(id, state, found)
  return '1'
end
