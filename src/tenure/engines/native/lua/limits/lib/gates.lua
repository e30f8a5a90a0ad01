-- lib gates: lanes with a next job that a limit stops. Such a lane waits in `gate:<limit>` by its arrival, is noted in
-- `gated`, and is not in `turns`. `moments` has the limits of this queue that let a job start at a known time. The
-- namespace notes in `gates:<limit>` which queues have such lanes, since a limit holds for all queues of a namespace on
-- one node.
-- Needs: clock, digits, shared_key. Sets: gates. Redis: reads and writes.

gates = {}
do
  local my = gates
  -- How many lanes this call has sent to a gate: lanes of one call keep their order.
  local arrivals = 0

  -- The end of an empty gate.
  function my.drop_empty(name)
    if call('EXISTS', key('gate:' .. name)) == 1 then return end
    call('ZREM', key('moments'), name)
    if call('SREM', shared_key('gates:' .. name), prefix) == 1
      and call('EXISTS', shared_key('gates:' .. name)) == 0 then
      call('HDEL', shared_key('waiting'), name)
    end
  end

  -- Note when the next lane at a gate may be tried again.
  function my.note_moment(name, moment)
    call('ZADD', key('moments'), digits(moment), name)
    my.soonest = math.min(my.soonest or moment, moment)
  end

  -- Send a lane, which is not in `turns`, to a gate. moment: when its next job may start; nil: when a lease ends.
  -- since: the arrival of a lane that has waited before and keeps its place; nil for one that comes new.
  function my.shut(lane, name, moment, since)
    if not since then
      since, arrivals = digits(select(2, clock()) + arrivals), arrivals + 1
    end
    call('ZADD', key('gate:' .. name), since, lane)
    call('HSET', key('gated'), lane, name)
    if call('SADD', shared_key('gates:' .. name), prefix) == 1 then call('HSET', shared_key('waiting'), name, '1') end
    if moment then my.note_moment(name, moment) end
  end

  -- Note that suspects, which are in no lane, wait at a gate: they are tried again before the lanes there.
  function my.shut_suspects(name, moment)
    if call('HEXISTS', key('gated'), '@!' .. name) == 0 then
      my.shut('@!' .. name, name, moment, '0')
    elseif moment then
      my.note_moment(name, moment)
    end
  end

  -- Take a lane away from its gate, since it has become empty or has another job in front.
  function my.leave(lane)
    local name = call('HGET', key('gated'), lane)
    if not name then return end
    call('HDEL', key('gated'), lane)
    call('ZREM', key('gate:' .. name), lane)
    my.drop_empty(name)
  end
end
