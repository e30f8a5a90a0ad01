-- claim: take up to `limit` jobs from the front of a queue for a worker.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms kind alone of_lane
-- `kind`: how many jobs the worker runs at one time; or h, a lease by hand.
-- `alone`: whether the worker could run a job alone: now, beside (suspects that have run for long), soon, or no.
-- `of_lane`: most jobs of one lane and task, following each other, that one claim may take.
-- Returns: {ms until more is due or -1, {id, record, token, failures, crashes}..., {dropped id...}, how}. `how` above 0: the
-- job runs alone, and the worker claims nothing beside it for `how` ms; -1: a job waits until this worker can run it alone; else
-- 0. An error when another program's data is in the place of the list whose turn it is.
-- Invariant: a claimed job is in `held:<worker>` and no longer in line; its worker is in `holders`; its token is higher
-- than any before it; a lane has no more jobs held than its limit, or `of_lane`; no limit of a job is exceeded.
--@include begin types tokens remember claimed task back duework tombstones large suspects
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
local limit, lease_ms, kind = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local alone, of_lane, by_hand = ARGV[8], tonumber(ARGV[9]), kind == 'h'
local held_key = key('held:' .. worker)

allow_when_full()
local again = recall(session, number)
if again then
  return claimed_before(again, function(id, token)
    local mine, as = string.match(call('HGET', held_key, id) or '', '^(%d+) %d+ (%w*)')
    if mine ~= token then return nil end
    local failures, crashes = counted(call('HGET', key('tries'), id))
    return { id, call('HGET', key('jobs'), id) or '', token, failures, crashes }, claim_window(as)
  end)
end

check_types()
local time, micros = clock()
local promoted, reclaimed, next_ms, rest = run_due(config, time, math.max(@TEND_LIMIT@, limit))
if newer_layout then return newer_layout_error() end
uses_features = uses_features or promoted + reclaimed > 0
if rest then
  -- The next call brings back earlier jobs of dead workers; no later job may start before them.
  remember(session, number, cmsgpack.pack({}))
  return { 0, {}, {}, 0 }
end
if uses_features and (call('HGET', key('settings'), 'paused') or hold_left('', time) > 0) then
  call('DEL', key('wake'))
  remember(session, number, cmsgpack.pack({}))
  return { next_ms, {}, {}, 0 }
end

limit = math.min(limit, @MAX_HELD@ - call('HLEN', held_key))
if call('ZCARD', key('holders')) >= @MAX_HOLDERS@ and not call('ZSCORE', key('holders'), worker) then
  return redis.error_reply('LHHOLDERS @MAX_HOLDERS@ workers and leases by hand hold jobs of this queue: that is the limit')
end
local jobs, claims, answer, dropped, looked = {}, {}, {}, {}, 0
local token = math.max(tonumber(call('HGET', key('meta'), 'token') or 0), micros)
local taken, how, read, turned, unlaned = {}, 0, 0, 0, 0
local has_tries = call('EXISTS', key('tries')) == 1
-- The text of a claim after its token.
local claim_rest = ' ' .. time .. ' ' .. kind

local function take(id, record, failures, crashes, alone_kind)
  taken[id] = true
  read = read + #record
  note_size(#record)
  token = token + 1
  local text, rest, shape = token_text(token), alone_kind and not by_hand and ' ' .. time .. ' ' .. alone_kind or claim_rest, ''
  local equals = string.find(record, '=', 1, true)
  if equals and equals < (string.find(record, '\n', 1, true) or #record + 1) then
    shape = shape_of(string.match(record, '^[^\n]*'))
  end
  if shape ~= '' then
    rest = rest .. ' ' .. shape
    if uniques.key_of(shape) == 's' then uniques.free_key(shape, id, false) end
    if has_places(shape) then starts.note(shapes.word(shape, 'm'), text, time, micros) end
  end
  jobs[#jobs + 1] = { id, record, text, failures, crashes }
  claims[#claims + 1], claims[#claims + 2] = id, text .. rest
  answer[#answer + 1], answer[#answer + 2] = id, text
end

-- Take suspects: one that runs alone, or as many as may run together with those that are held. Answers whether it took any.
local function take_suspects()
  if not uses_features or #jobs >= limit or call('EXISTS', key('isolated')) == 0 then
    return false
  end
  local who = { worker = worker, micros = micros, slots = tonumber(kind) or @MAX_HELD@, alone = #jobs > 0 and alone ~= 'no' and 'soon' or alone }
  local chosen, alone_kind
  chosen, how, alone_kind = suspects.choose(config, time, who, limit - #jobs)
  for _, one in ipairs(chosen) do
    take(one[1], one[2], one[3], one[4], alone_kind)
    if alone_kind then suspects.note_alone(time, how, worker, jobs[#jobs][3], one[1]) end
  end
  if how ~= 0 then limit = #jobs end
  return #chosen > 0
end

--@include takelist
local took_suspects = take_suspects()
if uses_features and #jobs < limit then
--@include takelevels
  take_levels()
elseif #jobs < limit then
  take_list('ready', limit - #jobs)
end
took_suspects = take_suspects() or took_suspects
if #jobs > 16 and not by_hand then
  -- Redis keeps a hash of short values as a list, which it searches from the front. One long value turns it into a table; zeros
  -- before the number of slots do not change the claim.
  claims[2] = string.gsub(claims[2], '^%d+ %d+ ', '%0' .. string.rep('0', 50), 1)
end
if #jobs > 0 then
  call('HSET', held_key, unpack(claims))
  call('ZADD', key('holders'), time + lease_ms, worker)
  call('ZREM', key('suspects'), worker)
  call('HSET', key('meta'), 'token', digits(token))
end
if refused and #jobs == 0 then return refused end
local waiting = call('EXISTS', key('ready'), key('turns'), key('priorities')) > 0
local isolated = uses_features and call('EXISTS', key('isolated')) == 1
if not waiting and not isolated then
  call('DEL', key('wake'))
  drop_tombstones()
elseif (waiting and (#jobs > 0 or looked == 0)) or (isolated and took_suspects) then
  wake_one()
elseif waiting then
  next_ms = 0
end
if waiting and is_spent() then next_ms = 0 end
if has_limits() and gates.soonest then
  local ms = math.max(0, gates.soonest - time)
  next_ms = next_ms < 0 and ms or math.min(next_ms, ms)
  -- Another worker is to learn of the moment, as this one may be busy then.
  if #jobs > 0 and #jobs >= limit then wake_one() end
end
remember(session, number, cmsgpack.pack(answer))
return { next_ms, jobs, dropped, how }
