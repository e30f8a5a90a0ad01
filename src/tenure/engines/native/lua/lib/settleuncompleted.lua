-- lib settleuncompleted: settlements that are not completions: retries, releases, bad ends, rounds of persistent jobs. A part of
-- `settle`.
-- Needs: ARGV, ids, micros, shape_at, time, tries, worker. Sets: return_to_front, settle_uncompleted, woken. Redis: reads and
-- writes.
--@include config back due task large
local config = config_of(ARGV[3])
local tasks, front, cancels = {}, {}, cancels_asked(ids)
for n, id in ipairs(ids) do
  if ARGV[5 + (n - 1) * 6 + 2] == 'u' then
    tasks[n] = task_of(call('HGET', key('jobs'), id))
    call('ZCARD', key('unroutable:' .. tasks[n]))
  end
end

local function wait_until(id, moment)
  local entry = due_entry(id, call('HGET', key('jobs'), id))
  call('ZADD', key('scheduled'), moment, entry)
  woken = woken or call('ZRANGE', key('scheduled'), 0, 0)[1] == entry
end

local function retry(id, failures, crashes, doubtful, delay, errors, shape)
  call('HSET', key('tries'), id, blame.tries_text(failures + 1, crashes, doubtful) .. '\n' .. errors)
  note_size(#errors)
  call('HINCRBY', key('meta'), 'retried', 1)
  if delay > 0 then
    wait_until(id, time + delay)
  elseif doubtful >= config.isolate and not (shape ~= '' and shapes.word(shape, 'l')) then
    call('RPUSH', key('isolated'), id)
    woken = true
  elseif shape ~= '' then
    shapes.place_again(id, shape)
  else
    call('RPUSH', key('ready'), id)
    woken = true
  end
end

-- Let the limit of a job rest, which returns to the front. A job that does not have this limit waits for its time itself.
local function defer(id, ms, name, shape, entry)
  local names_it = name ~= '' and string.find(',' .. (shapes.word(shape, 'm') or ''), ',' .. name .. ':', 1, true)
  if name ~= '' then
    use_limits()
    places.rest(name, time, micros, ms)
  end
  if names_it then
    front[#front + 1] = entry
  else
    wait_until(id, time + ms)
  end
end

-- Put a persistent job, which is never completed, to the end of the queue with its counts reset.
local function go_round(id, shape)
  call('HDEL', key('tries'), id)
  call('HINCRBY', key('meta'), 'rounds', 1)
  shapes.place(id, shape, false)
end

local bad_ends = { f = 'failed', b = 'broken', x = 'cancelled' }
settle_uncompleted = function(id, n, at, claimed, persists, failures, crashes, doubtful)
  local token, kind, ms, head, body = unpack(ARGV, at + 1, at + 5)
  local shape = shape_at[n] or ''
  local asked = (kind == 'r' or kind == 'd' or kind == 'u' or persists) and cancels[n]
  if asked then
    end_badly(config, time, 'cancelled', id, failures, crashes, token, worker, claimed, asked)
  elseif kind == 'l' or kind == 'k' then
    front[#front + 1] = { tonumber(token), id, claimed, worker, kind == 'k' and 'known', shape }
  elseif bad_ends[kind] then
    local failed = kind == 'f' and 1 or 0
    local error = kind == 'x' and body or dated(body, failures + crashes + 1, time)
    end_badly(config, time, bad_ends[kind], id, failures + failed, crashes, token, worker, claimed, error)
  else
    clear_notes({ id })
    if persists then
      go_round(id, shape)
    elseif kind == 'r' then
      local errors = with_earlier(dated(body, failures + crashes + 1, time), tries[n])
      retry(id, failures, crashes, doubtful, tonumber(ms), errors, shape)
    elseif kind == 'd' then
      defer(id, tonumber(ms), head, shape, { tonumber(token), id, claimed, worker, false, shape })
    else
      call('ZADD', key('unroutable:' .. tasks[n]), token, id)
      call('SADD', key('unroutable'), tasks[n])
    end
  end
end

-- Jobs that were released or have crashed go to the front, in the order of their claims.
return_to_front = function()
  table.sort(front, function(a, b) return a[1] > b[1] end)
  requeue(config, time, front)
end
