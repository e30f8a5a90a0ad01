-- lib flow: groups of jobs, with calls that follow when all members have ended. A group is in the first partition of
-- the queue that it was made in. `flow:<id>` has its numbers and calls; `flow:<id>:ended` a bit for each member that
-- has ended; `flow:<id>:failed` the members that have not completed, each with its state and queue;
-- `flow:<id>:results` the results, if they are wanted; `flows` the ids, and when they were made.
-- Needs: clock, digits. Defines: flow. Redis: reads and writes.
--@include sending
local flow = { PARTS = { '', ':ended', ':failed', ':results', ':queues' } }
local COUNTED = { completed = 'completed', cancelled = 'cancelled', expired = 'cancelled', discarded = 'cancelled' }

function flow.key(id, part) return key('flow:' .. id .. (part or '')) end

-- The fields of a group by name; nil: it is gone.
function flow.of(id)
  local fields, found = call('HGETALL', flow.key(id)), {}
  for i = 1, #fields, 2 do found[fields[i]] = fields[i + 1] end
  return found.total and found or nil
end

-- Enqueue a call of the group: {queue, id, record, due, rule}, and for one that takes the results the rest of its
-- record, which follows them. Its id gets a number, as it may be enqueued in each round.
local function enqueue(id, group, packed, suffix)
  local job, rest = cmsgpack.unpack(packed), nil
  rest = job[6]
  if rest then
    local results = {}
    for n = 0, tonumber(group.total) - 1 do
      local result = call('HGET', flow.key(id, ':results'), n)
      results[#results + 1] = result and result ~= '' and result or 'null'
    end
    job[3] = job[3] .. '[' .. table.concat(results, ',') .. ']' .. rest
  end
  sending.send({ job[1], job[2] .. suffix, job[3], job[4], job[5] })
end

-- End a group if all of its members have ended.
function flow.end_if_over(id)
  local group = flow.of(id)
  if group.sealed ~= '1' or group.ended ~= group.total or group.state ~= 'open' then return end
  local is_complete, round = group.completed == group.total, tonumber(group.round) + 1
  local state = is_complete and 'completed' or group.reason and 'cancelled' or 'failed'
  call('HSET', flow.key(id), 'state', state, 'round', round, 'ended_ms', digits((clock())))
  call('HINCRBY', key('meta'), 'open_flows', -1)
  call('SREM', key('stopping'), id)
  if is_complete and group.on_success then
    enqueue(id, group, group.on_success, '')
    call('HDEL', flow.key(id), 'on_success')
  end
  if group.on_end then enqueue(id, group, group.on_end, '-' .. round) end
  for _, part in ipairs(flow.PARTS) do call('PEXPIRE', flow.key(id, part), group.keep) end
  call('PUBLISH', string.gsub(prefix, '/%d+%-%d+}$', '}') .. ':ended:' .. id, state)
end

-- Let a member run once more: its group is open again.
local function reopen(id, n, group)
  if call('SETBIT', flow.key(id, ':ended'), n, 0) == 0 then return end
  local before = string.match(call('HGET', flow.key(id, ':failed'), n) or 'completed', '^%S+')
  call('HINCRBY', flow.key(id), 'ended', -1)
  call('HINCRBY', flow.key(id), COUNTED[before] or 'failed', -1)
  call('HDEL', flow.key(id, ':failed'), n)
  if group.state == 'open' then return end
  call('HSET', flow.key(id), 'state', 'open')
  call('HDEL', flow.key(id), 'reason', 'ended_ms')
  call('HINCRBY', key('meta'), 'open_flows', 1)
  for _, part in ipairs(flow.PARTS) do call('PERSIST', flow.key(id, part)) end
end

-- Note what has become of a member, `<id of the group>.<number>`; text: `<state> <queue>`, newline, its result. The
-- state `again`: it runs once more.
function flow.note(member, text)
  local id, n = string.match(member, '^(.*)%.(%d+)$')
  local state, queue, result = string.match(text, '^(%S+) (%S+)\n(.*)$')
  local group = id and flow.of(id)
  if not group then return end -- it is forgotten
  if state == 'again' then return reopen(id, n, group) end
  if call('SETBIT', flow.key(id, ':ended'), n, 1) == 1 then return end
  call('HINCRBY', flow.key(id), 'ended', 1)
  call('HINCRBY', flow.key(id), COUNTED[state] or 'failed', 1)
  if state ~= 'completed' then
    call('HSET', flow.key(id, ':failed'), n, state .. ' ' .. queue)
    if group.policy == 'cancel' and not group.reason then flow.stop(id, 'member ' .. n .. ' ' .. state) end
  elseif group.results == '1' then
    call('HSET', flow.key(id, ':results'), n, result)
  end
  flow.end_if_over(id)
end

-- Ask maintenance to cancel the members that have not ended.
function flow.stop(id, reason)
  call('HSET', flow.key(id), 'reason', reason)
  call('SADD', key('stopping'), id)
end
