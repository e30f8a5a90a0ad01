-- settle: end leases of one worker, each with its own outcome. A lease that the worker has lost changes nothing.
-- KEYS[1] prefix
-- ARGV session number config worker (id token kind ms head body)...
-- kind: c completed, r retry, d retry that does not count (head: the limit that rests meanwhile, or ''), l released, k crashed,
-- u unroutable, f failed, b broken, x cancelled. ms: how long the end of a completed job is kept, or the delay of a retry.
-- Returns: a string of one character for each settlement: 1 settled, 0 lease lost.
-- Invariant: a settled job has left `held:<worker>` and is in exactly one of the ends, its lane, the list of its priority,
-- `ready`, `isolated`, `scheduled`, `unroutable:*`. A job that is to be cancelled does not wait again.
--@include begin types remember task back large
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
local held_key = key('held:' .. worker)
--@include transition
local time, micros = clock()
local ids = {}
for i = 5, #ARGV, 6 do ids[#ids + 1] = ARGV[i] end
local held = call('HMGET', held_key, unpack(ids))
local tries = call('EXISTS', key('tries')) == 1 and call('HMGET', key('tries'), unpack(ids)) or {}
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
local answers, gone, front, placed = {}, {}, {}, {}
local ended, expiries, completed, shaped, woken = {}, {}, {}, {}, false

-- Most ends are kept for the same time, so the text of their times is made once.
local kept_until, kept_for, times = nil, nil, nil

local function complete(id, failures, crashes, token, claimed, ttl, head, body)
  completed[#completed + 1] = id
  if ttl ~= '0' then
    if ttl ~= kept_for then
      kept_for, kept_until = ttl, digits(time + ttl)
      times = time .. ' ' .. kept_until
    end
    ended[#ended + 1] = id
    ended[#ended + 1] = end_line('completed', times, failures, crashes, token, worker, claimed) .. '\n' .. head .. '\n' .. body
    expiries[#expiries + 1] = kept_until
    expiries[#expiries + 1] = id
  end
end

local function retry(id, failures, crashes, doubtful, delay, errors, shape)
  call('HSET', key('tries'), id, blame.tries_text(failures + 1, crashes, doubtful) .. '\n' .. errors)
  note_size(#errors)
  call('HINCRBY', key('meta'), 'retried', 1)
  if delay > 0 then
    local entry = due_entry(id, call('HGET', key('jobs'), id))
    call('ZADD', key('scheduled'), time + delay, entry)
    woken = woken or call('ZRANGE', key('scheduled'), 0, 0)[1] == entry
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
  clear_notes({ id })
  local names_it = name ~= '' and string.find(',' .. (shapes.word(shape, 'm') or ''), ',' .. name .. ':', 1, true)
  if name ~= '' then places.rest(name, time, micros, ms) end
  if names_it then
    front[#front + 1] = entry
    return
  end
  local waiting = due_entry(id, call('HGET', key('jobs'), id))
  call('ZADD', key('scheduled'), time + ms, waiting)
  woken = woken or call('ZRANGE', key('scheduled'), 0, 0)[1] == waiting
end

-- Put a persistent job, which is never completed, to the end of the queue with its counts reset.
local function go_round(id, shape)
  call('HDEL', key('tries'), id)
  call('HINCRBY', key('meta'), 'rounds', 1)
  shapes.place(id, shape, false)
end

local bad_ends = { f = 'failed', b = 'broken', x = 'cancelled' }
for n, id in ipairs(ids) do
  local at = 5 + (n - 1) * 6
  local token, kind, ms, head, body = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  local mine, claimed = string.match(held[n] or '', '^(%d+) (%d+)')
  local shape = shape_at[n] or ''
  answers[n] = 0
  if shape ~= '' and mine == token and has_places(shape) then placed[#placed + 1] = { token, shape } end
  -- Two leases of one job can only come from a list that another program wrote to. The first end removes the record.
  if mine == token and call('HEXISTS', key('jobs'), id) == 0 then
    gone[#gone + 1] = id
  elseif mine == token then
    local failures, crashes, doubtful = counted(tries[n])
    answers[n] = 1
    held[n] = false
    -- After the end of a suspect another one may start.
    woken = woken or doubtful >= config.isolate
    gone[#gone + 1] = id
    local persists = kind == 'c' and shape ~= '' and shapes.word(shape, 'k')
    local asked = (kind == 'r' or kind == 'd' or kind == 'u' or persists) and cancels[n]
    if asked then
      end_badly(config, time, 'cancelled', id, failures, crashes, token, worker, claimed, asked)
    elseif persists then
      clear_notes({ id })
      go_round(id, shape)
    elseif kind == 'c' then
      complete(id, failures, crashes, token, claimed, ms, head, body)
      if shape ~= '' then shaped[id] = shape end
    elseif kind == 'r' then
      clear_notes({ id })
      local errors = with_earlier(dated(body, failures + crashes + 1, time), tries[n])
      retry(id, failures, crashes, doubtful, tonumber(ms), errors, shape)
    elseif kind == 'd' then
      defer(id, tonumber(ms), head, shape, { tonumber(token), id, claimed, worker, false, shape })
    elseif kind == 'l' or kind == 'k' then
      front[#front + 1] = { tonumber(token), id, claimed, worker, kind == 'k' and 'known', shape }
    elseif kind == 'u' then
      clear_notes({ id })
      call('ZADD', key('unroutable:' .. tasks[n]), token, id)
      call('SADD', key('unroutable'), tasks[n])
    else
      local failed = kind == 'f' and 1 or 0
      local error = kind == 'x' and body or dated(body, failures + crashes + 1, time)
      end_badly(config, time, bad_ends[kind], id, failures + failed, crashes, token, worker, claimed, error)
    end
  end
end
if #ended > 0 then
  call('HSET', key('ended'), unpack(ended))
  call('ZADD', key('completed'), unpack(expiries))
  trim('completed', config.completed_max)
end
if #completed > 0 then
  call('HDEL', key('jobs'), unpack(completed))
  if #tries > 0 then call('HDEL', key('tries'), unpack(completed)) end
  call('HINCRBY', key('meta'), 'completed', #completed)
  clear_notes(completed)
  for _, id in ipairs(completed) do
    if shaped[id] then
      lane_ends.leave(shaped[id], id)
      uniques.free_key(shaped[id], id, false)
    end
    publish_end(id, 'completed')
  end
end
-- Jobs that were released or have crashed go to the front, in the order of their claims.
table.sort(front, function(a, b) return a[1] > b[1] end)
requeue(config, time, front)
if #gone > 0 then
  call('HDEL', held_key, unpack(gone))
  retire(worker)
end
if #placed > 0 then places.free(placed) end
if woken then wake_one() end
return remember(session, number, table.concat(answers))
