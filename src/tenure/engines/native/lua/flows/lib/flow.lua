-- lib flow: groups of jobs, with calls that follow when all members have ended. A group is in the first partition of
-- the queue that it was made in. `flow:<id>` has its numbers and calls; `flow:<id>:ended` a bit for each member that
-- has ended; `flow:<id>:failed` the members that have not completed, each with its state and queue;
-- `flow:<id>:results` the results, if they are wanted; `flows` the ids, and when they were made; `flows_over` from when
-- on the records are removed; `flows_unsealed` until when a group must be sealed. A chain is such a group, and
-- `flow:<id>:next` has the members after the first, each of which comes to be when the one before it has completed. A
-- member may be a flow, in the same place: its id is the member's.
-- A definition, as MessagePack, is a call: {queue, id, record, due, rule}, and if it takes what came before it the rest
-- of its record, which follows that; or a flow: {'', id, group or chain, results, definition...}.
-- Needs: clock, digits. Defines: flow. Redis: reads and writes.
--@include sending
local flow = { PARTS = { '', ':ended', ':failed', ':results', ':queues', ':next' }, LARGE = { ':failed', ':results' } }
local COUNTED = { completed = 'completed', cancelled = 'cancelled', expired = 'cancelled', discarded = 'cancelled' }

function flow.key(id, part) return key('flow:' .. id .. (part or '')) end

-- The fields of a group by name, and in a list, each with its value behind it; nil: it is gone, or is to be removed.
function flow.of(id)
  local fields, found = call('HGETALL', flow.key(id)), {}
  for i = 1, #fields, 2 do found[fields[i]] = fields[i + 1] end
  if found.total and not (found.gone_ms and tonumber(found.gone_ms) <= clock()) then return found, fields end
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

-- The results of all members, as a list. If they are too many or too large for one job, an argument that no task has:
-- the job ends in broken, and its error names it.
local TOO_LARGE = 'null],{"the_results_are_too_large":"for one job"}]'
local function all_results(id, total)
  if total > @MAX_FLOW_RESULTS@ then return TOO_LARGE, true end
  local results, bytes = {}, 0
  for n = 0, total - 1 do
    local result = call('HGET', flow.key(id, ':results'), n)
    results[#results + 1] = result and result ~= '' and result or 'null'
    bytes = bytes + #results[#results]
    if bytes > @MAX_CALL_BYTES@ then return TOO_LARGE, true end
  end
  return '[' .. table.concat(results, ',') .. ']'
end

-- Whether an id is one of a member.
function flow.is_member(id) return string.find(id, '.', 1, true) ~= nil end

-- Make what is defined. `jobs`: where its jobs go, to be sent. `group`: of which it is a member, or nil. `before`:
-- returns what a call takes.
local function define(jobs, id, definition, keep, group, before, on_success, on_end)
  local found = cmsgpack.unpack(definition)
  if found[1] ~= '' then
    local record = found[3]
    if found[6] then
      local argument, is_whole = before()
      record = record .. argument .. (is_whole and '' or found[6])
    end
    jobs[#jobs + 1] = { found[1], id, record, found[4], found[5] }
    if group then call('SADD', flow.key(group, ':queues'), found[1]) end
    return
  end
  local members, is_chain = { unpack(found, 5) }, found[3] == 'chain'
  if group then call('HSET', flow.key(group), 'nests', '1') end
  -- The record of an inner flow is needed for a retry until the outermost one is over.
  if group and not flow.is_member(group) then keep = digits(keep + @INNER_KEEP_MS@) end
  flow.make(id, on_success or '', on_end or '', 'total', #members, 'keep', keep, 'policy', 'wait', 'results', found[4],
    'sealed', '1', unpack(is_chain and { 'chain', '1' } or {}))
  for n, member in ipairs(members) do
    if is_chain and n > 1 then
      call('HSET', flow.key(id, ':next'), n - 1, member)
    else
      define(jobs, id .. '.' .. n - 1, member, keep, id)
    end
  end
  flow.end_if_over(id, flow.of(id)) -- an empty group
end

-- Start a call or a flow.
function flow.start(id, definition, ...)
  local jobs = {}
  define(jobs, id, definition, ...)
  sending.send(jobs)
end

-- Start what follows a flow.
local function follow(definition, suffix, keep, results)
  if definition then flow.start(cmsgpack.unpack(definition)[2] .. suffix, definition, keep, nil, results) end
end

-- Send word to the flow that this one is a member of, if any.
local function report(id, state, result)
  if flow.is_member(id) then sending.send({ { sending.queue, id, state .. ' +\n' .. result, '', 'end' } }) end
end

-- What a group that has completed gives to the one that it is a member of, and whether it is too large.
local function result_of(id, group)
  if group.results ~= '1' or not flow.is_member(id) then return '', false end
  if group.chain then return call('HGET', flow.key(id, ':results'), group.total - 1) or '', false end
  return all_results(id, tonumber(group.total))
end

-- Report to the group that this one is a member of how it has ended.
function flow.report_end(id, group)
  report(id, group.state, group.state == 'completed' and result_of(id, group) or '')
end

-- End a group if all of its members have ended.
function flow.end_if_over(id, group)
  local total = tonumber(group.total)
  if group.sealed ~= '1' or tonumber(group.ended) ~= total or group.state ~= 'open' then return end
  -- What was broken off lacks members: it has not completed, even if all others have.
  local is_complete = tonumber(group.completed) == total and not group.broken_off
  local round = tonumber(group.round) + 1
  local result, is_too_large = '', false
  if is_complete then result, is_too_large = result_of(id, group) end
  is_complete = is_complete and not is_too_large
  local state = is_complete and 'completed' or group.reason and 'cancelled' or 'failed'
  local gone_ms = digits(clock() + group.keep)
  call('HSET', flow.key(id), 'state', state, 'round', round, 'ended_ms', digits((clock())), 'gone_ms', gone_ms)
  call('HINCRBY', key('meta'), 'open_flows', -1)
  call('SREM', key('stopping'), id)
  local function results() return all_results(id, total) end
  if is_complete then follow(group.on_success, '', group.keep, results) end
  follow(group.on_end, '-' .. round, group.keep, results)
  report(id, state, result)
  -- Maintenance removes it in slices: Redis would remove a large one in one step.
  local expires_ms = digits(group.keep + @FLOW_LATE_MS@)
  for _, part in ipairs(flow.PARTS) do call('PEXPIRE', flow.key(id, part), expires_ms) end
  call('ZADD', key('flows_over'), gone_ms, id)
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

-- Open a group again that has ended.
local function open_again(id, group)
  if group.state == 'open' then return end
  group.state, group.reason = 'open', nil
  call('HSET', flow.key(id), 'state', 'open')
  call('HDEL', flow.key(id), 'reason', 'ended_ms', 'gone_ms')
  call('HINCRBY', key('meta'), 'open_flows', 1)
  call('ZREM', key('flows_over'), id)
  for _, part in ipairs(flow.PARTS) do call('PERSIST', flow.key(id, part)) end
  report(id, 'again', '')
end

-- Let a member run once more: its group is open again.
local function reopen(id, n, group)
  if call('SETBIT', flow.key(id, ':ended'), n, 0) == 0 then return end
  count(group, n, string.match(call('HGET', flow.key(id, ':failed'), n) or 'completed', '^%S+'), -1)
  call('HDEL', flow.key(id, ':failed'), n)
  open_again(id, group)
end

-- Start the member of a chain behind the member n, which has completed, if there is one.
local function start_next(id, n, group, result)
  local following = call('HGET', flow.key(id, ':next'), n + 1)
  if not following then return end
  flow.start(id .. '.' .. n + 1, following, group.keep, id, function() return result ~= '' and result or 'null' end)
end

local function write_counts(id, group)
  call('HSET', flow.key(id), 'total', group.total, 'ended', group.ended, 'completed', group.completed, 'failed',
    group.failed, 'cancelled', group.cancelled)
end

-- Continue a chain that was cancelled while a member of it completed. Return whether there was one.
function flow.continue(id, group)
  local n = group.completed - 1 -- the last one
  if not group.chain or group.state == 'open' or n + 1 == tonumber(group.total)
    or call('HLEN', flow.key(id, ':failed')) > 0 then return false end
  count(group, n, 'completed', -1)
  open_again(id, group)
  count(group, n, 'completed', 1)
  write_counts(id, group)
  start_next(id, n, group, call('HGET', flow.key(id, ':results'), n) or '')
  return true
end

-- Note the end of a member; or that it runs `again`.
local function note(id, n, group, text)
  local state, queue, result = string.match(text, '^(%S+) (%S+)\n(.*)$')
  if state == 'again' then return reopen(id, n, group) end
  if call('SETBIT', flow.key(id, ':ended'), n, 1) == 1 then return end
  count(group, n, state, 1)
  if group.chain and state == 'completed' and not group.reason then start_next(id, n, group, result) end
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

-- Add a member for another member. Word of the end of the latter follows, so the group is open, unless it was cancelled
-- before.
local function grow(id, _, group, definition)
  if group.state ~= 'open' then return end
  flow.start(id .. '.' .. group.total, definition, group.keep, id)
  group.total = group.total + 1
end

-- Note what has become of members: words as lib sending has them, with the id of the member, `<id of the
-- group>.<number>`, and `<state> <queue>`, newline, its result; `+` stands for a flow. With the rule `add`: the
-- definition of one more member. With the rule `start`: a flow that is no member.
function flow.note(words)
  local groups = {}
  for _, word in ipairs(words) do
    if word[5] == 'start' and not flow.of(word[2]) then flow.start(unpack(word, 2, 4)) end
    local id, n = string.match(word[2], '^(.*)%.(%d+)$')
    if id and groups[id] == nil then
      groups[id] = flow.of(id) or false -- false: it is forgotten
    end
    if id and groups[id] then
      local act = word[5] == 'add' and grow or note
      act(id, n, groups[id], word[3])
    end
  end
  for id, group in pairs(groups) do
    if group then
      write_counts(id, group)
      flow.end_if_over(id, group)
    end
  end
end

-- Forget a group: nothing follows it from now on, and flow_prune removes it.
function flow.forget(id, group)
  call('HSET', flow.key(id), 'gone_ms', '0')
  call('ZADD', key('flows_over'), 0, id)
  call('ZREM', key('flows'), id)
  call('ZREM', key('flows_unsealed'), id)
  call('SREM', key('stopping'), id)
  if group.state == 'open' then call('HINCRBY', key('meta'), 'open_flows', -1) end
end

-- Remove what is there of `most` members of a group that is over, and the group after its last one. Forget the flows in
-- it. Return whether it was small.
function flow.prune(id, most)
  local total, from, nests = unpack(call('HMGET', flow.key(id), 'total', 'pruned', 'nests'))
  total, from = tonumber(total or 0), tonumber(from or 0)
  local size = 0
  for _, part in ipairs(flow.LARGE) do size = size + call('HLEN', flow.key(id, part)) end
  local to = math.min(total, from + most)
  if not nests and size <= most then from, to = total, total end
  local numbers = {}
  for n = from, to - 1 do
    numbers[#numbers + 1] = digits(n)
    local inner = nests and flow.of(id .. '.' .. digits(n))
    if inner then flow.forget(id .. '.' .. digits(n), inner) end
  end
  if to < total then
    for _, part in ipairs(flow.LARGE) do call('HDEL', flow.key(id, part), unpack(numbers)) end
    call('HSET', flow.key(id), 'pruned', to)
    return false
  end
  for _, part in ipairs(flow.PARTS) do call('DEL', flow.key(id, part)) end
  call('ZREM', key('flows'), id)
  call('ZREM', key('flows_over'), id)
  return #numbers == 0
end

-- Ask maintenance to cancel the members that have not ended.
function flow.stop(id, reason)
  call('HSET', flow.key(id), 'reason', reason)
  call('SADD', key('stopping'), id)
end
