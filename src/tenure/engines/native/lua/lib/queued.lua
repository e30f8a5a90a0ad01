-- lib queued: the end of an enqueue. Stands where the ids in `ready`, and the scores and ids in `scheduled` (`later`: the
-- same ids), have been added and are in no line yet.
-- Needs: later, ready, scheduled, wake_one. Redis: reads and writes.
if #ready > 0 then
  call('RPUSH', key('ready'), unpack(ready))
  wake_one()
end
if scheduled and #scheduled > 0 then
  call('ZADD', key('scheduled'), unpack(scheduled))
  -- One of them may be the next: then an idle worker must learn when to look again.
  if later[call('ZRANGE', key('scheduled'), 0, 0)[1]] then wake_one() end
end
