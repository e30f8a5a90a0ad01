-- lib claimorder: the order in which a claim takes from priorities, `ready` and lanes.
-- Defines: claim_order. Redis: reads and writes.
--@include picks laneturns levels
local claim_order = {}
do
  local my = claim_order

  -- Take up to `count` jobs of priority 0: jobs of `ready` and jobs of lanes take turns, so that neither waits for all
  -- of the other.
  local function take_common(claim, count, lanes_first)
    if call('EXISTS', key('turns')) == 0 then
      return picks.take_list(claim, 'ready', count)
    elseif call('EXISTS', key('ready')) == 0 then
      return lane_turns.take(claim, count)
    end
    local goal = #claim.jobs + count
    call('HSET', key('meta'), 'turn', lanes_first and 0 or 1)
    if lanes_first then lane_turns.take(claim, math.ceil(count / 2)) end
    picks.take_list(claim, 'ready', lanes_first and goal - #claim.jobs or math.ceil(count / 2))
    lane_turns.take(claim, goal - #claim.jobs)
    picks.take_list(claim, 'ready', goal - #claim.jobs)
  end

  -- Take up to `count` jobs of one priority.
  local function take_level(claim, level, count, lanes_first)
    if level == 0 then return take_common(claim, count, lanes_first) end
    picks.take_list(claim, 'ready:' .. level, count)
    if call('EXISTS', key('ready:' .. level)) == 0 then call('ZREM', key('priorities'), level) end
  end

  -- Take jobs of the highest priority first; but one of PRIORITY_TURN jobs is of a lower priority, each of these in its
  -- turn, after the one `served` last.
  local function take_in_turn(claim, chosen)
    local found, lanes_first = waiting_levels(call('EXISTS', key('ready'), key('turns')) > 0), chosen[1] == '1'
    local passed, served = tonumber(chosen[2] or 0), tonumber(chosen[3] or -1000)
    while #claim.jobs < claim.limit and #found > 0 and not picks.is_spent(claim) do
      local turn, count, before = 1, claim.limit - #claim.jobs, #claim.jobs
      local is_low = #found > 1 and passed >= @PRIORITY_TURN@ - 1
      if is_low then
        turn, count = 2, 1
        for n = #found, 2, -1 do turn = found[n] < served and n or turn end
      elseif #found > 1 then
        count = math.min(count, @PRIORITY_TURN@ - 1 - passed)
      end
      take_level(claim, found[turn], count, lanes_first)
      local took = #claim.jobs - before
      if is_low and took > 0 then
        passed, served = 0, found[turn]
      elseif not is_low and #found > 1 then
        passed = passed + took
      end
      if took < count and not picks.is_spent(claim) then table.remove(found, turn) end
    end
    call('HSET', key('meta'), 'passed', passed, 'level', served)
  end

  -- Take jobs up to the limit of the claim.
  function my.take(claim)
    local chosen = call('HMGET', key('meta'), 'turn', 'passed', 'level')
    if not claim.has_only_lanes and call('EXISTS', key('priorities')) == 1 then
      take_in_turn(claim, chosen)
    else
      take_common(claim, claim.limit - #claim.jobs, chosen[1] == '1')
    end
    if claim.unlaned > 0 then call('HINCRBY', key('meta'), 'laned', 0 - claim.unlaned) end
  end
end
