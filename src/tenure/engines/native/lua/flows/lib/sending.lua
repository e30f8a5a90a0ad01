-- lib sending: jobs on their way to other queues, or partitions of this one. `out:<queue>` has them in the order of
-- their numbers, each as MessagePack: {number, id, record, due, rule}; `outs` names the queues that such jobs go to.
-- Numbers grow as tokens do, so that the other queue can ignore what it has taken: a counter that a failover sets back
-- would name new jobs as earlier ones.
-- A rule that begins with a letter: no job. `end` or `add`: word of a member for its group; `start`: a flow to start,
-- with the time that it is kept as `due`: see lib flow.
-- Needs: clock, digits. Defines: sending. Redis: reads and writes.
--@include lazy
local sending = setmetatable({ function(my)
  local has_sent = false

  -- The queue that this place is of, as it stands in its keys.
  my.queue = string.match(prefix, ':([^:/}]*)[^:}]*}$')

  -- Whether this call has sent a job.
  function my.has_sent() return has_sent end

  -- Check the keys of these jobs before anything is written.
  function my.check(jobs)
    call('SCARD', key('outs'))
    for _, job in ipairs(jobs) do call('LLEN', key('out:' .. job[1])) end
  end

  -- The first of `count` numbers.
  local function next_numbers(count)
    local _, micros = clock()
    local first = 1 + math.max(tonumber(call('HGET', key('meta'), 'sent') or 0), micros)
    call('HSET', key('meta'), 'sent', digits(first + count - 1))
    return first
  end

  -- Send jobs, {queue, id, record, due, rule}.
  function my.send(jobs)
    if #jobs == 0 then return end
    has_sent = true
    local first, lists = next_numbers(#jobs), {}
    for n, job in ipairs(jobs) do
      local list = lists[job[1]] or {}
      lists[job[1]] = list
      list[#list + 1] = cmsgpack.pack({ digits(first + n - 1), job[2], job[3], job[4], job[5] })
    end
    for queue, list in pairs(lists) do
      for n = 1, #list, 1000 do call('RPUSH', key('out:' .. queue), unpack(list, n, math.min(n + 999, #list))) end
      call('SADD', key('outs'), queue)
    end
  end

  -- The word of a member for its group: the word f of its shape names the place of the group. Nil: it is no member.
  function my.word_of(id, shape, state, result, home)
    home = home or shape ~= '' and shapes.word(shape, 'f')
    if not home then return nil end
    return { string.sub(home, 3), id, state .. ' ' .. my.queue .. '\n' .. (result or ''), '', 'end' }
  end

  -- Send what is to follow a bad end: the word o of the shape of the job that has ended. Its id gets a number, as a job
  -- that is retried may end so again. A header of a job names that job, and a flow has none.
  function my.report(word, id)
    local number = digits(next_numbers(1))
    local text = string.gsub(word, '%%(%x%x)', function(code) return string.char(tonumber(code, 16)) end)
    local queue, own_id, record, due, rule = unpack(cmsgpack.unpack(text))
    local ended = my.queue .. '%2F'
      .. string.gsub(id, '[^%w_.~-]', function(char) return string.format('%%%02X', string.byte(char)) end)
    local task, rest = string.match(record, '^(%S+)(.*)$')
    local headers = string.sub(rest, 1, 3) == ' h=' and '&' .. string.sub(rest, 4) or rest
    if rule ~= 'start' then record = task .. ' h=failed_job=' .. ended .. headers end
    my.send({ { queue, own_id .. '-' .. number, record, due, rule } })
  end
end }, lazy)
