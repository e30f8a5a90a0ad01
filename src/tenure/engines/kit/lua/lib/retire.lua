-- lib retire: a worker that holds nothing needs no heartbeat.
local function retire(worker)
  if call('EXISTS', key('held:' .. worker)) == 0 then
    call('ZREM', key('holders'), worker)
    call('ZREM', key('suspects'), worker)
  end
end
