-- lib queued: the end of an enqueue. Stands where the ids in `ready`, and the scores and ids in `scheduled` (`later`: the
-- same ids), have been added and are in no line yet.
if #ready > 0 then
  call('RPUSH', key('ready'), unpack(ready))
  wake_one()
end
if #scheduled > 0 then
  call('ZADD', key('scheduled'), unpack(scheduled))
  wake_for_next(later)
end
