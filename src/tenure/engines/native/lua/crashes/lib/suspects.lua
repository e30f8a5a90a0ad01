-- lib suspects: jobs that were running when two workers died wait in `isolated`, since any of them may be to blame.
-- Half as many of them as the worker has slots may run together, and with each further death half of that. After
-- `config.alone` deaths a job runs alone. The latest claim of these stands first: a job that kills its worker has
-- mostly just begun.
-- Needs: digits. Defines: suspects. Redis: reads and writes.
--@include lazy blame picks
--@include company

-- The suspects that wait: a part of `suspects`.
local function add_waiting(my)
  -- Take a suspect out of the list. Returns its record; nil for one that is gone, or if its lane has been parked
  -- since: then the suspect goes back into its lane.
  function my.take_out(id)
    local record = call('HGET', key('jobs'), id)
    local shape = shape_of(record)
    local lane = shape ~= '' and shapes.word(shape, 'l')
    local parked = lane and lanes.is_aside(lane)
    if parked then shapes.check(shape) end
    call('LREM', key('isolated'), 1, id)
    if not parked then return record end
    shapes.place(id, shape, true)
  end

  -- The suspects that no limit stops, as {id, failures, crashes, doubtful crashes}: those that run together, and alone.
  function my.waiting(config, time, micros)
    local ids = call('LRANGE', key('isolated'), 0, @MAX_LOOK@ - 1)
    local together, alone, entered = {}, {}, false
    for n, text in ipairs(call('HMGET', key('tries'), unpack(ids))) do
      local failures, crashes, doubtful = counted(text)
      local list, stays = doubtful < config.alone and together or alone, has_limits()
      if stays then
        stays, entered = starts.stops_suspect(shape_of(call('HGET', key('jobs'), ids[n])), entered, time, micros)
      end
      if not stays then list[#list + 1] = { ids[n], failures, crashes, doubtful } end
    end
    return together, alone
  end
end

local suspects = setmetatable({ add_waiting, function(my)
  -- Choose up to `room` suspects and take them out of the list, as {id, record, failures, crashes}. For one that runs
  -- alone, return also for how many ms nothing else is claimed, and the kind of its claim; -1: the worker is to prepare
  -- for one; else 0.
  local company = nil
  local function choose(config, time, micros, worker, slots, kind, room)
    company = company or company_of(config, time, blame.held(worker))
    local chosen, together, alone = {}, my.waiting(config, time, micros)
    for _, one in ipairs(kind ~= '' and alone or {}) do
      local record = my.take_out(one[1])
      if record then
        local window = window_of(config, one[4])
        return { { one[1], record, one[2], one[3] } }, window, kind .. digits(window)
      end
    end
    for _, one in ipairs(together) do
      local worst = math.max(company.worst, one[4])
      if #chosen >= room or company.count >= most_together(slots, worst) then break end
      local record = my.take_out(one[1])
      if record then
        chosen[#chosen + 1] = { one[1], record, one[2], one[3] }
        company.count, company.worst = company.count + 1, worst
      end
    end
    return chosen, kind == '' and #alone > 0 and ask_to_prepare(config, time) or 0
  end

  -- Take suspects for a claim: one that runs alone, or as many as may run together with those that the worker holds.
  -- `kind`: as claim_full has it in `alone`.
  function my.take(claim, config, worker, slots, kind)
    local room = claim.limit - #claim.jobs
    if room <= 0 or call('EXISTS', key('isolated')) == 0 then return end
    if #claim.jobs > 0 then kind = '' end
    local chosen, window, alone_kind = choose(config, claim.time, claim.micros, worker, slots, kind, room)
    for _, one in ipairs(chosen) do picks.take(claim, one[1], one[2], one[3], one[4], alone_kind) end
    if window ~= 0 then claim.how = window end
    if window > 0 then claim.limit = #claim.jobs end
    claim.took_suspects = claim.took_suspects or #chosen > 0
  end
end }, lazy)
