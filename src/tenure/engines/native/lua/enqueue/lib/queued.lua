-- lib queued: new jobs come in line.
-- Defines: queue_jobs. Redis: reads and writes.
--@include wake

-- Put ids into `ready`, and scores and entries into `scheduled`; `later`: these entries.
local function queue_jobs(ready, scheduled, later)
  if #ready > 0 then
    call('RPUSH', key('ready'), unpack(ready))
    wake_one()
  end
  if scheduled and #scheduled > 0 then
    call('ZADD', key('scheduled'), unpack(scheduled))
    -- One of them may be the next: then an idle worker must learn when to look again.
    if later[call('ZRANGE', key('scheduled'), 0, 0)[1]] then wake_one() end
  end
end
