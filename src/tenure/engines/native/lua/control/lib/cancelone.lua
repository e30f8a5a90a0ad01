-- lib cancelone: cancel one job.
-- Needs: clock, counted, end_badly, find, place_of, take_out. Defines: cancel_one, end_waiting. Redis: reads, writes.

-- End a job that waits, by what `find` has answered. Returns false for any other.
local function end_waiting(config, id, body, state, detail, record)
  if state ~= 'ready' and state ~= 'scheduled' and state ~= 'unroutable' then return false end
  local found = place_of(id, state, detail, record)
  local failures, crashes = counted(call('HGET', key('tries'), id))
  end_badly(config, clock(), 'cancelled', id, failures, crashes, '0', '-', '0', body)
  take_out(id, state, found)
  return true
end

-- End a job that waits, or ask the worker of one that is active. Returns 1 for ended, 2 for asked, and 0 when there is
-- no such job, or it has ended. `signal`: how the channel of a worker begins; `queue`: the message.
local function cancel_one(config, id, body, signal, queue)
  local state, detail, record = find(id)
  if state == 'active' then
    call('HSET', key('cancelling'), id, body)
    -- The message is a hint: the worker's next heartbeat brings the same.
    call('PUBLISH', signal .. detail, queue)
    return '2'
  end
  return end_waiting(config, id, body, state, detail, record) and '1' or '0'
end
