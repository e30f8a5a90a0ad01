-- lib suspects: jobs that were running when two workers died wait in `isolated`, since any of them may be to blame. As many of
-- them as half of its slots may run together in a worker, and with each further death half of that. After `config.alone` deaths
-- a job runs alone. Of those the latest claim stands first: what kills has mostly just begun.
--@include blame company

local suspects = setmetatable({ function(my)
  -- What a worker holds of this queue that has not been running for long (`young`, if anything): how many suspects, and the most
  -- crashes that one of them had in company (`worst`). `doubtful`: suspects that have run for long.
  local function company_of(config, time, worker)
    local company, ids, claims = { count = 0, worst = 0, young = false, doubtful = false }, {}, {}
    local held = call('HGETALL', key('held:' .. worker))
    for i = 1, #held, 2 do
      ids[#ids + 1], claims[#claims + 1] = held[i], held[i + 1]
    end
    local tries = #ids > 0 and call('HMGET', key('tries'), unpack(ids)) or {}
    for n, claim in ipairs(claims) do
      local claimed, kind, shape = string.match(claim, '^%d+ (%d+) ?(%w*) ?(.*)$')
      local _, _, doubtful = counted(tries[n])
      if not is_steady(config, time, claimed, kind or '') then
        company.young = true
        company.count = company.count + (doubtful >= config.isolate and 1 or 0)
        company.worst = math.max(company.worst, doubtful)
      elseif doubtful >= config.isolate and not blame.is_cleared(config, time, claimed, shape) then
        company.doubtful = true
      end
    end
    return company
  end

  -- Take a suspect out of the list. Answers its record; nil for one that is not there, or whose lane has been parked since: that
  -- one goes back into it.
  local function take_suspect(id)
    local record = call('HGET', key('jobs'), id)
    local shape = shape_of(record)
    local lane = shape ~= '' and shapes.word(shape, 'l')
    local parked = lane and shapes.is_aside(lane)
    if parked then
      shapes.check(shape)
    end
    call('LREM', key('isolated'), 1, id)
    if parked then
      shapes.place(id, shape, true)
      return nil
    end
    return record
  end

  -- The suspects that wait, as {id, failures, crashes, crashes in company}: those that run together, and those that run alone.
  local function waiting_suspects(config)
    local ids = call('LRANGE', key('isolated'), 0, @MAX_LOOK@ - 1)
    local together, alone = {}, {}
    for n, text in ipairs(call('HMGET', key('tries'), unpack(ids))) do
      local failures, crashes, doubtful = counted(text)
      local list = doubtful < config.alone and together or alone
      list[#list + 1] = { ids[n], failures, crashes, doubtful }
    end
    return together, alone
  end

  local company = nil
  -- Up to `room` suspects for a worker, taken out of the list, as {id, record, failures, crashes}. And when it is one that is to
  -- run alone, for how many ms nothing is to be claimed beside it, and the kind of its claim; -1 when nothing else is to be claimed
  -- here until one can; else 0. `who.alone`: whether one could: now, beside (suspects that have run for long), soon, or no.
  -- Where it could not yet, it is reserved for this worker, unless another gets ready.
  local function choose_suspects(config, time, who, room)
    company = company or company_of(config, time, who.worker)
    local together, alone = waiting_suspects(config)
    local is_ready = (who.alone == 'now' or who.alone == 'beside') and not company.young
    if #alone > 0 and not is_ready and who.alone ~= 'no' and reserve(time, who.worker) then
      return {}, -1
    end
    for _, one in ipairs(is_ready and alone or {}) do
      local record = take_suspect(one[1])
      if record then
        local window = window_of(config, one[4])
        local kind = who.alone == 'now' and not company.doubtful and 'x' or 'y'
        return { { one[1], record, one[2], one[3] } }, window, kind .. digits(window)
      end
    end
    local chosen = {}
    for _, one in ipairs(together) do
      local worst = math.max(company.worst, one[4])
      if #chosen >= room or company.count >= most_together(who.slots, worst) then
        break
      end
      local record = take_suspect(one[1])
      if record then
        chosen[#chosen + 1] = { one[1], record, one[2], one[3] }
        company.young, company.count, company.worst = true, company.count + 1, worst
      end
    end
    return chosen, 0
  end

  my.choose = choose_suspects
end }, unmade)
