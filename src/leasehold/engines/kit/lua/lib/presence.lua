-- lib presence: which workers and queues there are, for those who look.

-- Show a worker for a while and keep its queues listed: they are the arguments from the position `first` on. What was
-- listed by those who came no more is forgotten here.
local function show_worker(time, worker, text, ttl_ms, keep_ms, first)
  call('SET', key('worker:' .. worker), text, 'PX', ttl_ms)
  call('ZADD', key('workers'), time, worker)
  call('ZREMRANGEBYSCORE', key('workers'), '-inf', time - ttl_ms)
  for i = first, #ARGV do call('ZADD', key('queues'), time, ARGV[i]) end
  call('ZREMRANGEBYSCORE', key('queues'), '-inf', time - keep_ms)
  call('PEXPIRE', key('workers'), keep_ms)
  call('PEXPIRE', key('queues'), keep_ms)
end

local function hide_worker(worker)
  call('DEL', key('worker:' .. worker))
  call('ZREM', key('workers'), worker)
end
