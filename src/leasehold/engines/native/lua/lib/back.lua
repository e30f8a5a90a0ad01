-- lib back: how claims that were not settled come back: to the front, in the order in which they were made.
--@include wake shape unique notes forget ends retire blame

-- No worker saw this job end: the next that maintains the queue tells of it. News, not a record: pcall, as no job may be
-- kept from its way by another program's key.
local function tell_of(id)
  redis.pcall('RPUSH', key('poison'), id)
  redis.pcall('LTRIM', key('poison'), -@POISON_MAX@, -1)
  redis.pcall('PEXPIRE', key('poison'), @POISON_TTL_MS@)
end

-- How much more this call may give back, and whether it leaves some of it for the next.
local room, left = @BACK_MOST@, false

-- A job that can go back does so: into its lane, to the front of its priority, or to one of the two lists, which are the
-- caller's to write.
local function line_up_again(config, id, shape, doubtful, front, isolated)
  local lane = shape ~= '' and shapes.word(shape, 'l')
  if doubtful >= config.isolate and not lane then
    table.insert(isolated, doubtful >= config.alone and 1 or #isolated + 1, id)
  elseif lane or shape ~= '' and shapes.word(shape, 'p') then
    shapes.place(id, shape, true)
  else
    front[#front + 1] = id
  end
end

local function end_as_broken(config, time, id, failures, crashes, token, worker, claimed)
  local message = 'What ran this job died or stalled ' .. crashes .. ' times.'
  local body = cjson.encode({ type = 'Crashed', message = message, traceback = '' })
  end_badly(config, time, 'broken', id, failures, crashes, token, worker, claimed, body)
  tell_of(id)
end

-- The one way back to the front of a queue, for entries {token, id, claimed, worker, crashed, shape, kind of claim} with the
-- highest token first: each goes to the very front, so the order of the claims is the order afterwards. Who is to blame for
-- too many crashes ends in broken; one that has crashed goes to `isolated`; one that is to be cancelled ends so. One of a lane
-- goes back into it: a claim isolates it when it is its turn.
-- One whose list is another program's is put off, its end, too: until then it occupies its lane and keeps its notes. Who
-- promotes it then tells of it.
-- Answers how many it took: with `bounded`, as far as there is room. An end, or a place other than the front, takes several
-- times as long as to be just next in line.
local function put_back(config, time, entries, bounded)
  if #entries == 0 then
    return 0
  end
  blame.assign(config, time, entries)
  local ids, again, front, isolated, counts, crashed = {}, {}, {}, {}, {}, 0
  for n, entry in ipairs(entries) do
    ids[n] = entry[2]
  end
  local tries = call('EXISTS', key('tries')) == 1 and call('HMGET', key('tries'), unpack(ids)) or {}
  local asked = cancels_asked(ids)
  local jobs, done = key('jobs'), 0
  for n, entry in ipairs(entries) do
    if bounded and room <= 0 then
      break
    end
    done = n
    local token, id, claimed, worker, shape = entry[1], entry[2], entry[3], entry[4], entry[6]
    room = room - 1
    -- Not with one HMGET for all: records may be large.
    if call('HEXISTS', jobs, id) == 1 then
      local failures, crashes, doubtful = blame.counted_after(config, time, entry, tries[n])
      crashed = crashed + (entry[5] and 1 or 0)
      local broken = entry[5] and is_limit(config, entry[5], crashes, doubtful)
      local out_of_line = shape ~= '' and shapes.trouble_of(shape)
      room = room - ((asked[n] or broken or shape ~= '') and @BACK_HARD@ - 1 or 0)
      if not out_of_line and asked[n] then
        end_badly(config, time, 'cancelled', id, failures, crashes, digits(token), worker, claimed, asked[n])
      elseif not out_of_line and broken then
        end_as_broken(config, time, id, failures, crashes, digits(token), worker, claimed)
      else
        if entry[5] or (tries[n] and shape ~= '') then
          counts[#counts + 1] = id
          counts[#counts + 1] = blame.tries_text(failures, crashes, doubtful) .. (string.match(tries[n] or '', '\n.*$') or '')
        end
        if out_of_line then
          shapes.put_off(id)
        else
          again[#again + 1] = id
          line_up_again(config, id, shape, doubtful, front, isolated)
        end
      end
    end
  end
  clear_all_notes(again)
  if crashed > 0 then
    call('HINCRBY', key('meta'), 'crashed', crashed)
  end
  if #counts > 0 then
    call('HSET', key('tries'), unpack(counts))
  end
  if #front > 0 then
    call('LPUSH', key('ready'), unpack(front))
  end
  if #isolated > 0 then
    call('LPUSH', key('isolated'), unpack(isolated))
  end
  if #front > 0 or #isolated > 0 then
    wake_one()
  end
  return done
end

-- Add what a worker holds to `entries`; of more than this call may give back, the latest claims. With `crashed` the earliest
-- claims count as crashed: as many as can have been running, which is twice its slots, since some may just have ended. The
-- others were claimed ahead and had not started. It makes no difference here that a part, the latest claims, is back already.
local function collect(entries, worker, crashed)
  local held = call('HGETALL', key('held:' .. worker))
  local tokens, sorted, rank, count = {}, {}, {}, 0
  for i = 1, #held, 2 do
    count = count + 1
    tokens[count] = tonumber(string.match(held[i + 1], '^%d+') or nil) or 0
    sorted[count] = tokens[count]
  end
  -- As numbers, which is several times as fast as to sort by a function.
  table.sort(sorted)
  local first = math.max(1, count - math.max(room, 0) + 1)
  left = left or first > 1
  for n = first, count do
    rank[sorted[n]] = n
  end
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
  local by_worker = {}
  for _, entry in ipairs(entries) do
    local ids = by_worker[entry[4]] or {}
    by_worker[entry[4]] = ids
    ids[#ids + 1] = entry[2]
  end
  for worker, ids in pairs(by_worker) do
    call('HDEL', key('held:' .. worker), unpack(ids))
  end
end

-- Give back these claims of these workers, in one order whoever held them: the latest first, as many as one call may. What
-- is left is still held, so the next call finds it, and puts it before these. Answers how many, and whether some are left.
local function give_back(config, time, workers, entries)
  table.sort(entries, function(a, b) return a[1] > b[1] end)
  local done = put_back(config, time, entries, true)
  for n = #entries, done + 1, -1 do
    entries[n], left = nil, true
  end
  no_longer_held(entries)
  for _, worker in ipairs(workers) do
    retire(worker)
  end
  return done, left
end
