-- lib flow: groups of jobs, with calls that follow when all members have ended. A group is in the first partition of
-- the queue that it was made in. `flow:<id>` has its numbers and calls; `flow:<id>:ended` a bit for each member that
-- has ended; `flow:<id>:failed` the members that have not completed, each with its state and queue;
-- `flow:<id>:results` the results, if they are wanted; `flows` the ids, and when they were made; `flows_over` when
-- the records go. A chain is such a
-- group, and `flow:<id>:next` has the members after the first, each of which comes to be when the one before it has
-- completed.
-- Needs: clock, digits. Defines: flow. Redis: reads and writes.
--@include sending
local flow = { PARTS = { '', ':ended', ':failed', ':results', ':queues', ':next' } }
local COUNTED = { completed = 'completed', cancelled = 'cancelled', expired = 'cancelled', discarded = 'cancelled' }

function flow.key(id, part) return key('flow:' .. id .. (part or '')) end

-- The fields of a group by name; nil: it is gone.
function flow.of(id)
  local fields, found = call('HGETALL', flow.key(id)), {}
  for i = 1, #fields, 2 do found[fields[i]] = fields[i + 1] end
  return found.total and found or nil
end

-- Make a group, with these fields more than each has. on_success, on_end: calls, or empty.
function flow.make(id, on_success, on_end, ...)
  local time = digits((clock()))
  call('HSET', flow.key(id), 'ended', '0', 'completed', '0', 'failed', '0', 'cancelled', '0', 'round', '0', 'state',
    'open', 'at', time, ...)
  if on_success ~= '' then call('HSET', flow.key(id), 'on_success', on_success) end
  if on_end ~= '' then call('HSET', flow.key(id), 'on_end', on_end) end
  call('ZADD', key('flows'), time, id)
  call('HINCRBY', key('meta'), 'open_flows', 1)
end

-- Enqueue a call of the group: {queue, id, record, due, rule}, and for one that takes what `results` returns the rest
-- of its record, which follows that.
local function enqueue(packed, suffix, results)
  local job = cmsgpack.unpack(packed)
  local record = job[3]
  if job[6] then
    local argument, is_whole = results()
    record = record .. argument .. (is_whole and '' or job[6])
  end
  sending.send({ { job[1], job[2] .. suffix, record, job[4], job[5] } })
end

-- The results of all members, as a list. If they are too large for one job, an argument that no task has: the job ends
-- in broken, and its error names it.
local function all_results(id, total)
  local results, bytes = {}, 0
  for n = 0, total - 1 do
    local result = call('HGET', flow.key(id, ':results'), n)
    results[#results + 1] = result and result ~= '' and result or 'null'
    bytes = bytes + #results[#results]
    if bytes > @MAX_CALL_BYTES@ then return 'null],{"the_results_are_too_large":"for one job"}]', true end
  end
  return '[' .. table.concat(results, ',') .. ']'
end

-- End a group if all of its members have ended.
function flow.end_if_over(id, group)
  local total = tonumber(group.total)
  if group.sealed ~= '1' or tonumber(group.ended) ~= total or group.state ~= 'open' then return end
  local is_complete, round = tonumber(group.completed) == total, tonumber(group.round) + 1
  local state = is_complete and 'completed' or group.reason and 'cancelled' or 'failed'
  call('HSET', flow.key(id), 'state', state, 'round', round, 'ended_ms', digits((clock())))
  call('HINCRBY', key('meta'), 'open_flows', -1)
  call('SREM', key('stopping'), id)
  local function results() return all_results(id, total) end
  if is_complete and group.on_success then enqueue(group.on_success, '', results) end
  if group.on_end then enqueue(group.on_end, '-' .. round, results) end
  for _, part in ipairs(flow.PARTS) do call('PEXPIRE', flow.key(id, part), group.keep) end
  call('ZADD', key('flows_over'), clock() + group.keep, id)
  call('PUBLISH', string.gsub(prefix, '/%d+%-%d+}$', '}') .. ':ended:' .. id, state)
end

-- Count the end of a member: `more` is 1, or -1 to take it back. The members of a chain behind one that has not
-- completed are cancelled, as they never come, and so are the others of a chain that is to stop.
local function count(group, n, state, more)
  local stops = group.chain and (state ~= 'completed' or group.reason)
  local name, behind = COUNTED[state] or 'failed', stops and group.total - 1 - n or 0
  group[name] = group[name] + more
  group.cancelled = group.cancelled + more * behind
  group.ended = group.ended + more * (1 + behind)
end

-- Let a member run once more: its group is open again.
local function reopen(id, n, group)
  if call('SETBIT', flow.key(id, ':ended'), n, 0) == 0 then return end
  count(group, n, string.match(call('HGET', flow.key(id, ':failed'), n) or 'completed', '^%S+'), -1)
  call('HDEL', flow.key(id, ':failed'), n)
  if group.state == 'open' then return end
  group.state = 'open'
  call('HSET', flow.key(id), 'state', 'open')
  call('HDEL', flow.key(id), 'reason', 'ended_ms')
  call('HINCRBY', key('meta'), 'open_flows', 1)
  call('ZREM', key('flows_over'), id)
  for _, part in ipairs(flow.PARTS) do call('PERSIST', flow.key(id, part)) end
end

-- Note the end of a member; or that it runs `again`.
local function note(id, n, group, text)
  local state, queue, result = string.match(text, '^(%S+) (%S+)\n(.*)$')
  if state == 'again' then return reopen(id, n, group) end
  if call('SETBIT', flow.key(id, ':ended'), n, 1) == 1 then return end
  count(group, n, state, 1)
  local goes_on = group.chain and state == 'completed' and not group.reason
  local following = goes_on and call('HGET', flow.key(id, ':next'), n + 1)
  if following then enqueue(following, '', function() return result ~= '' and result or 'null' end) end
  if state ~= 'completed' then
    call('HSET', flow.key(id, ':failed'), n, state .. ' ' .. queue)
    if group.policy == 'cancel' and not group.reason then
      group.reason = 'member ' .. n .. ' ' .. state
      flow.stop(id, group.reason)
    end
  elseif group.results == '1' then
    call('HSET', flow.key(id, ':results'), n, result)
  end
end

-- Note what has become of members: words as lib sending has them, with the id of the member, `<id of the
-- group>.<number>`, and `<state> <queue>`, newline, its result.
function flow.note(words)
  local groups = {}
  for _, word in ipairs(words) do
    local id, n = string.match(word[2], '^(.*)%.(%d+)$')
    if id and groups[id] == nil then
      groups[id] = flow.of(id) or false -- false: it is forgotten
    end
    if id and groups[id] then note(id, n, groups[id], word[3]) end
  end
  for id, group in pairs(groups) do
    if group then
      call('HSET', flow.key(id), 'ended', group.ended, 'completed', group.completed, 'failed', group.failed,
        'cancelled', group.cancelled)
      flow.end_if_over(id, group)
    end
  end
end

-- Ask maintenance to cancel the members that have not ended.
function flow.stop(id, reason)
  call('HSET', flow.key(id), 'reason', reason)
  call('SADD', key('stopping'), id)
end
