-- lib openlanes: lanes that leave a gate. An opened lane goes to the front of `turns`, with a note in `opened`: it
-- tries first, and keeps its place at the gate if it fails. One lane is opened at a time. If it takes a job and there
-- is room for more, or if it takes none, the next one is opened, so no place stays free while a lane waits for it.
-- Needs: gates, lanes, reservations, shared_key, turns, wake_one. Sets: open_lanes, passes, prefix. Redis: reads and
-- writes.
open_lanes = {}
do
  local my = open_lanes
  -- Wake a worker of the queue that `key` names now.
  local function wake(is_own)
    if is_own then
      wake_one()
    elseif call('LLEN', key('wake')) == 0 then
      call('LPUSH', key('wake'), '1')
    end
  end

  -- The lane that waits for longest at a gate; before it the one for which the places of the limit are kept.
  local function next_at(gate, name)
    local one = reservations.of(name)
    local since = one and one.queue == prefix and call('ZSCORE', gate, one.lane)
    if since then return one.lane, since end
    return unpack(call('ZRANGE', gate, 0, 0, 'WITHSCORES'))
  end

  local function open_next(name, is_own)
    local gate = key('gate:' .. name)
    for _ = 1, @OPEN_MOST@ do
      local lane, since = next_at(gate, name)
      if not lane then return gates.drop_empty(name) end
      call('ZREM', gate, lane)
      call('HDEL', key('gated'), lane)
      if lane == '@!' .. name then
        wake(is_own)
      elseif lanes.may_run(lane) then
        call('HSET', key('opened'), lane, since .. ' ' .. name)
        turns.add({ lane }, true)
        wake(is_own)
        return gates.drop_empty(name)
      end
    end
    -- The next call that does due work continues.
    gates.note_moment(name, 0)
  end

  -- Open the next lane at a gate of a queue. With pcall: another program's data in one queue must not stop the others.
  function my.open(queue, name)
    local own = prefix
    prefix = queue
    local done, reason = pcall(open_next, name, queue == own)
    prefix = own
    return done, reason
  end

  -- The same in all queues of the namespace.
  function my.open_all(name)
    local queues = redis.pcall('SMEMBERS', shared_key('gates:' .. name))
    for n, queue in ipairs(queues.err and {} or queues) do
      if n > @MAX_GATES@ then break end
      my.open(queue, name)
    end
  end

  -- Open lanes that are due. Returns the next moment.
  function my.open_due(time, limit)
    for _, name in ipairs(call('ZRANGEBYSCORE', key('moments'), '-inf', time, 'LIMIT', 0, limit)) do
      call('ZREM', key('moments'), name)
      my.open(prefix, name)
    end
    return call('ZRANGE', key('moments'), 0, 0, 'WITHSCORES')[2]
  end
end

-- The notes of opened lanes.
passes = {}
do
  local my = passes
  -- The note of a lane, which it loses: {since, name}, or nil.
  function my.take(lane)
    local since, name = string.match(call('HGET', key('opened'), lane) or '', '^(%S+) (.*)$')
    if not name then return nil end
    call('HDEL', key('opened'), lane)
    return { since = since, name = name }
  end

  -- An opened lane leaves `turns` and has taken no job: the next one gets its chance.
  function my.pass_on(lane)
    local pass = my.take(lane)
    if pass then open_lanes.open(prefix, pass.name) end
  end
end
