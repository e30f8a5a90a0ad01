-- lib takelevels: take jobs of all priorities in their turns. A part of `claim`, for queues that use features.
-- Needs: has_others, jobs, limit, unlaned. Defines: take_levels. Redis: reads and writes.
--@include taketurns levels

-- Take up to `count` jobs of one priority.
local function take_level(level, count, lanes_first)
  if level == 0 then return take_common(count, lanes_first) end
  take_list('ready:' .. level, count)
  if call('EXISTS', key('ready:' .. level)) == 0 then call('ZREM', key('priorities'), level) end
end

-- Take jobs of the highest priority first; but one of PRIORITY_TURN jobs is of a lower priority, each of these in its turn,
-- after the one `served` last.
local function take_in_turn(chosen)
  local found, lanes_first = waiting_levels(call('EXISTS', key('ready'), key('turns')) > 0), chosen[1] == '1'
  local passed, served = tonumber(chosen[2] or 0), tonumber(chosen[3] or -1000)
  while #jobs < limit and #found > 0 and not is_spent() do
    local turn, count, before = 1, limit - #jobs, #jobs
    local is_low = #found > 1 and passed >= @PRIORITY_TURN@ - 1
    if is_low then
      turn, count = 2, 1
      for n = #found, 2, -1 do turn = found[n] < served and n or turn end
    elseif #found > 1 then
      count = math.min(count, @PRIORITY_TURN@ - 1 - passed)
    end
    take_level(found[turn], count, lanes_first)
    local took = #jobs - before
    if is_low and took > 0 then
      passed, served = 0, found[turn]
    elseif not is_low and #found > 1 then
      passed = passed + took
    end
    if took < count and not is_spent() then table.remove(found, turn) end
  end
  call('HSET', key('meta'), 'passed', passed, 'level', served)
end

-- Take jobs up to the limit of the claim.
local function take_levels()
  local chosen = call('HMGET', key('meta'), 'turn', 'passed', 'level')
  if has_others and call('EXISTS', key('priorities')) == 1 then
    take_in_turn(chosen)
  else
    take_common(limit - #jobs, chosen[1] == '1')
  end
  if unlaned > 0 then call('HINCRBY', key('meta'), 'laned', 0 - unlaned) end
end
