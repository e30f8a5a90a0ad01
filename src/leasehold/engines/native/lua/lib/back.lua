-- lib back: how claims that were not settled come back: to the front, in the order in which they were made.
--@include wake shape unique notes forget ends retire

-- No worker saw this job end: the next that maintains the queue tells of it. News, not a record: pcall, as no job may be
-- kept from its way by another program's key.
local function tell_of(id)
  redis.pcall('RPUSH', key('poison'), id)
  redis.pcall('LTRIM', key('poison'), -@POISON_MAX@, -1)
  redis.pcall('PEXPIRE', key('poison'), @POISON_TTL_MS@)
end

-- The one way back to the front of a queue, for entries {token, id, claimed, worker, crashed, shape} with the highest token
-- first: each goes to the very front, so the order of the claims is the order afterwards. Past the limit of crashes a job
-- ends in broken; one that has crashed before goes to `isolated`; one that is to be cancelled ends so. One of a lane goes
-- back into it: a claim isolates it when it is its turn, so that of several that were held together only one runs.
local function put_back(config, time, entries)
  local ids, front, isolated, counts, crashed = {}, {}, {}, {}, 0
  for n, entry in ipairs(entries) do
    ids[n] = entry[2]
  end
  local tries = call('EXISTS', key('tries')) == 1 and #ids > 0 and call('HMGET', key('tries'), unpack(ids)) or {}
  for n, entry in ipairs(entries) do
    local token, id, claimed, worker = digits(entry[1]), entry[2], entry[3], entry[4]
    if call('HEXISTS', key('jobs'), id) == 1 then
      local failures, crashes = counted(tries[n])
      local asked = cancel_asked(id)
      if entry[5] then
        if entry[6] ~= '' and shapes.word(entry[6], 'k') and time - tonumber(claimed) > @PERSISTENT_STEADY_MS@ then
          crashes = 0
        end
        crashes, crashed = crashes + 1, crashed + 1
      end
      if asked then
        end_badly(config, time, 'cancelled', id, failures, crashes, token, worker, claimed, asked)
      elseif entry[5] and crashes >= config.max_crashes then
        local message = 'What ran this job died or stalled ' .. crashes .. ' times.'
        local body = cjson.encode({ type = 'Crashed', message = message, traceback = '' })
        end_badly(config, time, 'broken', id, failures, crashes, token, worker, claimed, body)
        tell_of(id)
      else
        clear_notes(id)
        if entry[5] then
          counts[#counts + 1] = id
          counts[#counts + 1] = failures .. ' ' .. crashes .. (string.match(tries[n] or '', '^%d+ %d+(.*)$') or '')
        end
        local lane = entry[6] ~= '' and shapes.word(entry[6], 'l')
        if crashes >= config.isolate and not lane then
          isolated[#isolated + 1] = id
        elseif lane or entry[6] ~= '' and shapes.word(entry[6], 'p') then
          shapes.place(id, entry[6], true)
        else
          front[#front + 1] = id
        end
      end
    end
  end
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
end

local function by_token(a, b)
  return a[1] < b[1]
end

-- What a worker holds, added to `entries`: all of it, or what is past its deadline at the time `overdue`. With `crashed` the
-- earliest claims count as crashed: as many as can have been running, twice its slots since some may just have ended. The
-- others were claimed ahead and did no harm.
local function collect(entries, worker, crashed, overdue)
  local held, mine = call('HGETALL', key('held:' .. worker)), {}
  for i = 1, #held, 2 do
    local token, deadline, claimed, slots, shape = string.match(held[i + 1], '^(%d+) (%d+) (%d+) ?(%w*) ?(.*)$')
    deadline = tonumber(deadline) or 0
    if not overdue or (deadline > 0 and deadline <= overdue) then
      mine[#mine + 1] = { tonumber(token) or 0, held[i], claimed or '0', worker, tonumber(slots) or @MAX_HELD@, shape or '' }
    end
  end
  table.sort(mine, by_token)
  for n, entry in ipairs(mine) do
    entry[5] = crashed and (overdue or n <= 2 * entry[5])
    entries[#entries + 1] = entry
  end
end

-- Give back these claims of these workers, in one order whoever held them. Answers how many.
local function give_back(config, time, workers, entries)
  table.sort(entries, function(a, b) return by_token(b, a) end)
  put_back(config, time, entries)
  for _, entry in ipairs(entries) do
    call('HDEL', key('held:' .. entry[4]), entry[2])
  end
  for _, worker in ipairs(workers) do
    retire(worker)
  end
  return #entries
end
