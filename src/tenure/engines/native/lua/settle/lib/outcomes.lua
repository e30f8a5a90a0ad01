-- lib outcomes: settle leases of jobs that are not completed: retries, releases, bad ends, rounds of persistent jobs.
-- Defines: outcomes. Redis: reads and writes.
--@include lazy back due task large history notes

-- How jobs come to wait again: a part of `outcomes`.
local function add_waits(my)
  -- Let a job wait until a time. Return whether it is due before all others.
  function my.wait_until(id, moment)
    local entry = due_entry(id, call('HGET', key('jobs'), id))
    call('ZADD', key('scheduled'), moment, entry)
    return call('ZRANGE', key('scheduled'), 0, 0)[1] == entry
  end

  -- Return to the front, in the order of the claims, the job of this lease; `crash`: as `requeue` takes it.
  function my.to_front(all, lease, crash)
    all.front[#all.front + 1] = { tonumber(lease.token), lease.id, lease.claimed, all.worker, crash, lease.shape }
  end

  function my.retry(all, lease)
    local errors = with_earlier(dated(lease.body, lease.failures + lease.crashes + 1, all.time), lease.tries)
    local text = blame.tries_text(lease.failures + 1, lease.crashes, lease.doubtful)
    call('HSET', key('tries'), lease.id, text .. '\n' .. errors)
    note_size(#errors)
    call('HINCRBY', key('meta'), 'retried', 1)
    local delay, shape = tonumber(lease.ms), lease.shape
    if delay > 0 then
      return my.wait_until(lease.id, all.time + delay)
    elseif lease.doubtful >= all.config.isolate and not (shape ~= '' and shapes.word(shape, 'l')) then
      call('RPUSH', key('isolated'), lease.id)
    elseif shape ~= '' then
      return shapes.place_again(lease.id, shape) -- which wakes a worker itself
    else
      call('RPUSH', key('ready'), lease.id)
    end
    return true
  end

  -- Let the limit of a job rest, which returns to the front. A job that does not have this limit waits for its time
  -- itself.
  function my.defer(all, lease)
    local name, ms, word = lease.head, tonumber(lease.ms), lease.shape ~= '' and shapes.word(lease.shape, 'm') or ''
    if name ~= '' then
      use_limits()
      places.rest(name, all.time, all.micros, ms)
    end
    if name == '' or not string.find(',' .. word, ',' .. name .. ':', 1, true) then
      return my.wait_until(lease.id, all.time + ms)
    end
    my.to_front(all, lease, false)
  end
end

local outcomes = setmetatable({ add_waits, function(my)
  local BAD_ENDS = { f = 'failed', b = 'broken', x = 'cancelled' }

  -- What the outcomes of one call have in common. `front`: jobs that return to the front: see `finish`. `unroutable`:
  -- the jobs that no worker can run; the keys that get them are read before anything has changed.
  function my.prepare(config, time, micros, worker, ids, unroutable)
    for _, id in ipairs(unroutable) do call('ZCARD', key('unroutable:' .. task_of(call('HGET', key('jobs'), id)))) end
    return { config = config, time = time, micros = micros, worker = worker, cancels = notes.cancels(ids), front = {} }
  end

  local function end_as(state, all, lease, failed, error)
    local failures = lease.failures + failed
    end_badly(all.config, all.time, state, lease.id, failures, lease.crashes, lease.token, all.worker, lease.claimed,
      error)
  end

  local function leave_unroutable(lease)
    local task = task_of(call('HGET', key('jobs'), lease.id))
    call('ZADD', key('unroutable:' .. task), lease.token, lease.id)
    call('SADD', key('unroutable'), task)
  end

  -- Put a persistent job, which is never completed, to the end of the queue with its counts reset.
  local function go_round(lease)
    call('HDEL', key('tries'), lease.id)
    call('HINCRBY', key('meta'), 'rounds', 1)
    shapes.place(lease.id, lease.shape, false)
  end

  -- Settle a lease, with the kinds of settle_full, and `k=1` for a round of a persistent job. Return whether to wake a
  -- worker.
  function my.settle(all, lease)
    local kind, state = lease.kind, BAD_ENDS[lease.kind]
    if kind == 'l' or kind == 'k' then
      my.to_front(all, lease, kind == 'k' and 'known')
    elseif state then
      local error = kind == 'x' and lease.body or dated(lease.body, lease.failures + lease.crashes + 1, all.time)
      end_as(state, all, lease, kind == 'f' and 1 or 0, error)
    elseif lease.cancel then
      end_as('cancelled', all, lease, 0, lease.cancel)
    else
      notes.clear({ lease.id })
      deadlines.note_again(lease.id, lease.shape)
      if kind == 'r' then return my.retry(all, lease) end
      if kind == 'd' then return my.defer(all, lease) end
      if kind == 'u' then leave_unroutable(lease) else go_round(lease) end
    end
  end

  -- Return jobs that were released or have crashed to the front, in the order of their claims.
  function my.finish(all)
    table.sort(all.front, function(a, b) return a[1] > b[1] end)
    requeue(all.config, all.time, all.front)
  end
end }, lazy)
