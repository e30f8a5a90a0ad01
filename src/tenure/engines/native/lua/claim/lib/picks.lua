-- lib picks: the jobs that one call of claim_full takes.
-- Defines: picks. Redis: reads and writes.
--@include counted tokens tombstones unique large lanes deadlines
local picks = {}
do
  local my = picks

  -- A claim that begins. `token`: the last one that was given; `isolate`: the doubtful crashes that make a job a
  -- suspect. Its other fields: `texts` of the claims; `ids` of the jobs; `read`, bytes; `looked`, entries; `turned`,
  -- lanes; `unlaned`, entries that lanes lost; `occupied` and `busy_texts`, what lanes.occupy has to write; `isolates`,
  -- whether a job was isolated; `of_lane` and `has_only_lanes`, as claim_full sets them; `refused`, the error of a key
  -- with another program's data in place of a list: the claim ends with the jobs that it has, or with the error.
  function my.new(time, micros, kind, limit, token, isolate)
    return {
      time = time, micros = micros, kind = kind, limit = limit, token = token, isolate = isolate, jobs = {},
      texts = {}, dropped = {},
      ids = {}, read = 0, looked = 0, turned = 0, unlaned = 0, occupied = {}, busy_texts = {}, how = 0,
    }
  end

  -- Whether a claim leaves jobs to the next one, which the worker sends at once.
  function my.is_spent(claim) return claim.refused or claim.read >= @CLAIM_BYTES@ or claim.turned >= @TURNS_MOST@ end

  -- Whether a claim looks at no further entry.
  function my.has_looked_enough(claim)
    return claim.refused or claim.read >= @CLAIM_BYTES@ or claim.looked >= claim.limit + @MAX_LOOK@
  end

  -- Read or pop entries of a list; nil for none.
  function my.ask(claim, command, list, ...)
    local found = redis.pcall(command, key(list), ...)
    if type(found) == 'table' and found.err then claim.refused, found = found, nil end
    return found or nil
  end

  -- Write which lanes the jobs occupy that were taken out of line. Before that, nothing else of this call may ask
  -- whether a lane may run.
  function my.occupy(claim)
    if #claim.occupied == 0 then return end
    lanes.occupy(claim.occupied, claim.busy_texts)
    claim.occupied, claim.busy_texts = {}, {}
  end

  -- What the start of a job with a shape changes.
  local function start(claim, id, shape, token)
    if has_key(shape) and uniques.key_of(shape) == 's' then
      my.occupy(claim)
      uniques.free_key(shape, id, false)
    end
    if has_places(shape) then starts.note(shape, token, claim.time, claim.micros) end
  end

  -- Take a job. `alone_kind`: the kind of the claim of a job that runs alone.
  function my.take(claim, id, record, failures, crashes, alone_kind)
    claim.ids[id], claim.read, claim.token = true, claim.read + #record, claim.token + 1
    note_size(#record)
    local token = token_text(claim.token)
    local rest = ' ' .. claim.time .. ' ' .. (claim.kind ~= 'h' and alone_kind or claim.kind)
    local shape = string.find(record, '=', 1, true) and shape_of(record) or ''
    if shape ~= '' then
      rest = rest .. ' ' .. shape
      deadlines.forget(id, shape)
      start(claim, id, shape, token)
    end
    claim.jobs[#claim.jobs + 1] = { id, record, token, failures, crashes }
    claim.texts[#claim.texts + 1], claim.texts[#claim.texts + 2] = id, token .. rest
  end

  -- The next entries of a list, up to `wanted`, as many as may be read with the bytes that are left.
  local function next_of(claim, list, wanted)
    local bytes = @CLAIM_BYTES@ - claim.read
    wanted = math.min(wanted, math.max(1, math.floor(bytes / @LARGE_BYTES@)))
    local found = my.ask(claim, 'LRANGE', list, '0', wanted - 1) or {}
    return has_large() and { unpack(found, 1, readable(found, bytes)) } or found
  end

  -- Take the job of an entry, unless it has none, or the job is a suspect, which goes to `isolated`.
  local function take_entry_of(claim, list, id, record, tries)
    local failures, crashes, doubtful = counted(tries)
    claim.read = claim.read + (tries and #tries or 0)
    if is_tombstone(list, id) then return end
    if not record or claim.ids[id] then
      claim.dropped[#claim.dropped + 1] = id
    elseif doubtful > 0 and doubtful >= claim.isolate then
      call('RPUSH', key('isolated'), id)
      claim.isolates = true
    else
      my.take(claim, id, record, failures, crashes)
    end
  end

  -- Whether some job of the queue has failed or crashed.
  function my.has_tries(claim)
    if claim.tries == nil then claim.tries = call('EXISTS', key('tries')) == 1 end
    return claim.tries
  end

  -- Take up to `count` jobs from the front of a list. Entries without a job must not hide the jobs behind them, so the
  -- search continues up to the limit of a call.
  function my.take_list(claim, list, count)
    local goal = #claim.jobs + count
    while #claim.jobs < goal and claim.looked < claim.limit + @MAX_LOOK@ and claim.read < @CLAIM_BYTES@ do
      local ids = next_of(claim, list, goal - #claim.jobs)
      if #ids == 0 then return end
      claim.looked = claim.looked + #ids
      local records = call('HMGET', key('jobs'), unpack(ids))
      local tries = my.has_tries(claim) and call('HMGET', key('tries'), unpack(ids)) or {}
      call('LTRIM', key(list), #ids, '-1')
      for n, id in ipairs(ids) do take_entry_of(claim, list, id, records[n], tries[n]) end
    end
  end
end
