-- lib back: leases that were not settled come back: to the front, in the order of their claims.
-- Needs: digits. Defines: collect, release_claims, requeue. Redis: reads and writes.
--@include wake unique notes ends retire blame places deadlines

-- Remember a job that ended while no worker saw it: the next worker that maintains the queue reports it. With pcall, as
-- another program's key must not keep a job from its place.
local function note_poison(id)
  redis.pcall('RPUSH', key('poison'), id)
  redis.pcall('LTRIM', key('poison'), -@POISON_MAX@, -1)
  redis.pcall('PEXPIRE', key('poison'), @POISON_TTL_MS@)
end

-- The error of a job that runs at most once, and may have begun.
local ONCE_BODY = cjson.encode({
  type = 'AtMostOnce', message = 'What ran this job died or stopped before the job had ended.', traceback = '',
})

-- How many more jobs this call may release, and whether it leaves some of them to the next call.
local room, left = @BACK_MOST@, false

-- Put a job to the front of its lane or its priority, or add it to `out` for one of the two lists that `requeue`
-- writes. A suspect of a lane goes back into its lane: a claim isolates it at its turn.
local function line_up_again(config, id, shape, doubtful, out)
  local lane = shape ~= '' and shapes.lane_of(shape)
  if doubtful >= config.isolate and not (lane and not is_internal(lane)) then
    table.insert(out.isolated, doubtful >= config.alone and 1 or #out.isolated + 1, id)
  elseif lane or shape ~= '' and shapes.word(shape, 'p') then
    shapes.place(id, shape, true)
  else
    out.front[#out.front + 1] = id
  end
end

-- Bring one job back. A job that crashed too often ends in broken, and a job that is to be cancelled ends in cancelled.
-- An end, or a place other than the front of `ready`, counts as several jobs, since it takes as long.
local function bring_back(config, time, entry, tries, asked, out)
  local token, id, claimed, worker, crash, shape = unpack(entry, 1, 6)
  local failures, crashes, doubtful = blame.counted_after(config, time, entry, tries)
  local is_once = (crash or entry.is_gone) and shape ~= '' and shapes.word(shape, 'a')
  local broken = is_once or crash and is_limit(config, crash, crashes, doubtful)
  out.crashed = out.crashed + (crash and 1 or 0)
  room = room - ((asked or broken or shape ~= '') and @BACK_HARD@ - 1 or 0)
  if asked then
    end_badly(config, time, 'cancelled', id, failures, crashes, digits(token), worker, claimed, asked)
  elseif broken then
    local body = is_once and ONCE_BODY or crash_body(crashes)
    end_badly(config, time, 'broken', id, failures, crashes, digits(token), worker, claimed, body)
    note_poison(id)
  else
    if crash or (tries and shape ~= '') then
      local text = blame.tries_text(failures, crashes, doubtful) .. (string.match(tries or '', '\n.*$') or '')
      out.counts[#out.counts + 1], out.counts[#out.counts + 2] = id, text
    end
    out.again[#out.again + 1] = id
    deadlines.note_again(id, shape)
    line_up_again(config, id, shape, doubtful, out)
  end
end

-- Bring leases back, for entries {token, id, claimed, worker, crashed, shape, kind of claim} with the highest token
-- first (`is_gone`: its worker no longer has it): each job goes to the very front, so the jobs end up in the order of
-- their claims. Suspects go to `isolated`. Returns how many entries were handled: with `bounded`, as far as there is
-- room.
local function requeue(config, time, entries, bounded)
  if #entries == 0 then return 0 end
  local ids, done = {}, 0
  for n, entry in ipairs(entries) do
    ids[n] = entry[2]
    if entry[6] ~= '' then shapes.check(entry[6]) end
  end
  blame.assign(config, time, entries)
  local out = { again = {}, counts = {}, front = {}, isolated = {}, crashed = 0 }
  local tries = call('EXISTS', key('tries')) == 1 and call('HMGET', key('tries'), unpack(ids)) or {}
  local asked = notes.cancels(ids)
  for n, entry in ipairs(entries) do
    if bounded and room <= 0 then break end
    done, room = n, room - 1
    -- Not with one HMGET for all: records may be large.
    if call('HEXISTS', key('jobs'), entry[2]) == 1 then
      bring_back(config, time, entry, tries[n], asked[n], out)
    end
  end
  notes.clear(out.again)
  if out.crashed > 0 then call('HINCRBY', key('meta'), 'crashed', out.crashed) end
  if #out.counts > 0 then call('HSET', key('tries'), unpack(out.counts)) end
  if #out.front > 0 then
    call('LPUSH', key('ready'), unpack(out.front))
    wake_one()
  end
  if #out.isolated > 0 then
    call('LPUSH', key('isolated'), unpack(out.isolated))
    wake_one()
  end
  return done
end

-- Add what a worker holds to `entries`; of more than this call may release, the latest claims. With `crashed` the
-- earliest claims count as crashed: as many as can have been running, which is twice the worker's slots, since some
-- jobs may just have ended. The others were claimed ahead and had not started. It does not matter that the latest
-- claims may be back already.
local function collect(entries, worker, crashed)
  local held = call('HGETALL', key('held:' .. worker))
  local tokens, sorted, rank, count = {}, {}, {}, 0
  for i = 1, #held, 2 do
    count = count + 1
    tokens[count] = tonumber(string.match(held[i + 1], '^%d+') or nil) or 0
    sorted[count] = tokens[count]
  end
  -- Sorting numbers is several times as fast as sorting by a function.
  table.sort(sorted)
  local first = math.max(1, count - math.max(room, 0) + 1)
  left = left or first > 1
  for n = first, count do rank[sorted[n]] = n end
  for i, token in ipairs(tokens) do
    local n = rank[token]
    if n then
      local claimed, kind, shape = string.match(held[2 * i], '^%d+ (%d+) ?(%w*) ?(.*)$')
      local crash = crashed and n <= 2 * (tonumber(kind) or @MAX_HELD@)
      entries[#entries + 1] = { token, held[2 * i - 1], claimed or '0', worker, crash, shape or '', kind }
    end
  end
end

local function no_longer_held(entries)
  local by_worker, placed = {}, {}
  for _, entry in ipairs(entries) do
    if has_places(entry[6]) then placed[#placed + 1] = { digits(entry[1]), entry[6] } end
    local ids = by_worker[entry[4]] or {}
    by_worker[entry[4]] = ids
    ids[#ids + 1] = entry[2]
  end
  for worker, ids in pairs(by_worker) do call('HDEL', key('held:' .. worker), unpack(ids)) end
  if #placed > 0 then places.free(placed) end
end

-- Release these claims of these workers in one order, the latest first, up to the limit of a call. The rest is still
-- held, so the next call finds it and puts it in front of these. Returns how many came back, and whether some are left.
local function release_claims(config, time, workers, entries)
  for _, entry in ipairs(entries) do entry.is_gone = true end
  table.sort(entries, function(a, b) return a[1] > b[1] end)
  local done = requeue(config, time, entries, true)
  for n = #entries, done + 1, -1 do entries[n], left = nil, true end
  no_longer_held(entries)
  for _, worker in ipairs(workers) do retire(worker) end
  return done, left
end
