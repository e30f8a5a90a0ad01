-- lib settleother: settlements of which some are more than the completion of a plain job. A part of `settle`.
--@include types back task large
allow_when_full()
check_types()
tries = call('EXISTS', key('tries')) == 1 and call('HMGET', key('tries'), unpack(ids)) or tries
local tasks, shape_at, cancels = {}, {}, cancels_asked(ids)
for n, id in ipairs(ids) do
  if held[n] and string.find(held[n], '=', 1, true) then
    shape_at[n] = shape_of(held[n])
    shapes.check(shape_at[n])
  end
  if ARGV[5 + (n - 1) * 6 + 2] == 'u' then
    tasks[n] = task_of(call('HGET', key('jobs'), id))
    call('ZCARD', key('unroutable:' .. tasks[n]))
  end
end
local front, placed, shaped, woken = {}, {}, {}, false

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
settle = function(id, n, at, claimed)
  local token, kind, ms, head, body = unpack(ARGV, at + 1, at + 5)
  local shape = shape_at[n] or ''
  if shape ~= '' and has_places(shape) then placed[#placed + 1] = { token, shape } end
  local failures, crashes, doubtful = counted(tries[n])
  local persists = kind == 'c' and shape ~= '' and shapes.word(shape, 'k')
  -- After the end of a suspect another one may start.
  woken = woken or doubtful >= config.isolate
  if kind == 'c' and not persists then
    shaped[id] = shape ~= '' and shape or nil
    return complete(id, n, at, claimed)
  elseif call('HEXISTS', key('jobs'), id) == 0 then
    return 0
  end
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
  return 1
end

finish = function()
  if #completed > 0 and #tries > 0 then call('HDEL', key('tries'), unpack(completed)) end
  clear_notes(completed)
  for _, id in ipairs(completed) do
    if shaped[id] then
      lane_ends.leave(shaped[id], id)
      uniques.free_key(shaped[id], id, false)
    end
    publish_end(id, 'completed')
  end
  -- Jobs that were released or have crashed go to the front, in the order of their claims.
  table.sort(front, function(a, b) return a[1] > b[1] end)
  requeue(config, time, front)
  if #placed > 0 then places.free(placed) end
  if woken then wake_one() end
end
