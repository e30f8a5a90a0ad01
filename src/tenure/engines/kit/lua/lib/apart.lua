-- lib apart: suspects in a claim: jobs that were running when two workers died. Some stay where they are for now,
-- because others are held beside which they may not run.
--@include company
local DEFERRED_MOST = 100

local apart = {
  -- The state of one claim. `how`: for how many ms the worker claims nothing but the job of this claim; -1: it is to
  -- prepare for one that has to run alone; else 0. `deferred`: jobs that stay because enough suspects are held;
  -- `lonely`: because they have to run alone. `kind` and `alone`: see claim. `held()` answers what the worker holds,
  -- see lib company.
  new = function(config, kind, alone, held)
    return { config = config, slots = tonumber(kind), alone = alone, held = held, deferred = {}, lonely = {}, how = 0 }
  end,

  -- The list of the state in which a job stays that was running when `doubtful` workers died. Nil if it runs; with the
  -- kind of its claim if it runs alone. `is_first`: this claim has no job yet.
  list_of = function(state, time, doubtful, is_first)
    local config = state.config
    if not state.slots or doubtful < config.isolate then return nil end
    if doubtful < config.alone then
      local company = state.company or company_of(config, time, state.held())
      local worst = math.max(company.worst, doubtful)
      state.company = company
      if company.count >= most_together(state.slots, worst) then return state.deferred end
      company.count, company.worst = company.count + 1, worst
      return nil
    end
    if state.alone == '' or not is_first then
      state.how, state.has_asked = state.has_asked and state.how or ask_to_prepare(config, time), true
      return state.lonely
    end
    state.how = window_of(config, doubtful)
    return nil, state.alone .. digits(state.how)
  end,

  -- Return those that stay to the right end of the list, where jobs are taken. They stay first, in their order: a
  -- worker that prepares for one must find it. But many must not hide the other jobs.
  put_back = function(state, list)
    local deferred, lonely = state.deferred, state.lonely
    if #deferred > DEFERRED_MOST then
      call('LPUSH', list, unpack(deferred))
    else
      for n = #deferred, 1, -1 do call('RPUSH', list, deferred[n]) end
    end
    for n = #lonely, 1, -1 do
      call(n > 1 and #lonely > DEFERRED_MOST and 'LPUSH' or 'RPUSH', list, lonely[n])
    end
  end,
}
