-- lib maintenance: what the maintenance of formats with a list has in common.

local maintenance = {
  -- Forget old records: `prune` of the engine. Answers how many, and whether a limit was reached.
  forget_old = function(config, time, limit)
    local pruned, more = 0, false
    for _, state in ipairs({ 'failed', 'broken', 'cancelled' }) do
      local gone = prune(config, state, time, limit)
      pruned, more = pruned + gone, more or gone >= limit
    end
    return pruned, more
  end,

  -- Bring back parked jobs of the tasks in ARGV from `first` on. `unpark(task)` answers how many it brought. Answers
  -- how many, and whether a limit was reached.
  unpark = function(first, limit, unpark)
    local unparked, more = 0, false
    if call('EXISTS', key('unroutable')) == 1 then
      for i = first, #ARGV do
        local count = unpark(ARGV[i])
        unparked, more = unparked + count, more or count >= limit
      end
    end
    return unparked, more
  end,
}
