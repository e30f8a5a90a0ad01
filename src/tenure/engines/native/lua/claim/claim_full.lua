-- claim_full: take up to `limit` jobs from the front of a queue for a worker.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms kind alone of_lane
-- `kind`: how many jobs the worker runs at one time; or h, a lease by hand. `alone`: the kind of the claim of a job
-- that has to run alone: x, y (with suspects that have run for long), or '': not now. `of_lane`: most jobs of one lane
-- and task, following each other, that one claim may take.
-- Returns: {ms until more is due or -1, {id, record, token, failures, crashes}..., {dropped id...}, how, left}. `left`:
-- about how many jobs could be claimed next. `how` above 0: the job runs alone, and the worker claims nothing else for
-- `how` ms; -1: the worker is to prepare for such a job; else 0. An error when another program's data is in the place
-- of the list that has its turn.
-- Invariant: a claimed job is in `held:<worker>` and no longer in line; its worker is in `holders`; its token is higher
-- than any before; a lane has no more jobs held than its limit, or `of_lane`; no limit of a job is exceeded.
--@include begin config answers wake nearest waitingtypes onhold claimedagain picks suspects claimorder
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config, limit, lease_ms, kind = config_of(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local held_key = key('held:' .. worker)
local again = recall(session, number)
if again then return claimed_again(again, held_key) end

-- Read the keys that are written below: a wrong type is an error here, before anything has changed. (A list of jobs is
-- read by the command that takes from it: see picks.ask.)
local time, micros = clock()
local seen, layout, limited_jobs, large_jobs, last_token, expiring =
  unpack(call('HMGET', key('meta'), 'seen', 'layout', 'limited', 'large', 'token', 'expires'), 1, 6)
local since = time - (tonumber(seen) or math.huge)
local lapse = call('ZRANGE', key('holders'), '0', '0', 'WITHSCORES')[2]
local due = call('ZRANGE', key('scheduled'), '0', '0', 'WITHSCORES')[2]
local paused = call('HGET', key('settings'), 'paused')
local next_ms = ms_until(time, lapse, due)
local expired = expiring and (tonumber(call('ZRANGE', key('expires'), '0', '0', 'WITHSCORES')[2]) or 0) <= time
local room = @MAX_HELD@ - call('HLEN', held_key)
is_awake()
limit = math.min(limit, room)
allow_when_full()
has_limits(limited_jobs ~= false)
has_large(large_jobs ~= false)

-- While no work is due, a claim only takes jobs. Most such queues have lanes and nothing else.
local is_calm = next_ms ~= 0 and since >= 0 and (since < @SEEN_MS@ or since <= config.outage)
  and not limited_jobs and not expired and (tonumber(layout) or 1) == @LAYOUT@
local has_only_lanes = false
if is_calm then
  check_waiting()
  has_only_lanes = only_lanes
  if only_lanes then has_tombstones(false) end
else
--@part types back duework
  check_types()
  local promoted, reclaimed, due_ms, rest = run_due(config, time, math.max(@TEND_LIMIT@, limit))
  if newer_layout then return newer_layout_error() end
  next_ms, uses_features = due_ms, uses_features or promoted + reclaimed > 0
  if rest then
    -- The next call brings back earlier jobs of dead workers; no later job may start before them.
    remember(session, number, '')
    return { 0, {}, {}, 0 }
  end
end
if not has_only_lanes and uses_features and (paused or hold_left('', time) > 0) then
  call('DEL', key('wake'))
  remember(session, number, '')
  return { next_ms, {}, {}, 0 }
end
if lapse and room == @MAX_HELD@ and call('ZCARD', key('holders')) >= @MAX_HOLDERS@
  and not call('ZSCORE', key('holders'), worker) then
  return redis.error_reply('TNHOLDERS @MAX_HOLDERS@ workers and leases by hand hold jobs of this queue: that is '
    .. 'the limit')
end

local claim = picks.new(time, micros, kind, limit, math.max(tonumber(last_token or 0), micros), config.isolate)
claim.of_lane, claim.has_only_lanes = tonumber(ARGV[9]), has_only_lanes
local slots = tonumber(kind) or @MAX_HELD@
local may_have_suspects = not has_only_lanes
if may_have_suspects then suspects.take(claim, config, worker, slots, ARGV[8]) end
if uses_features and #claim.jobs < claim.limit then
  claim_order.take(claim)
elseif #claim.jobs < claim.limit then
  picks.take_list(claim, 'ready', claim.limit - #claim.jobs)
end
if may_have_suspects or claim.isolates then suspects.take(claim, config, worker, slots, ARGV[8]) end
local jobs = claim.jobs
if claim.refused and #jobs == 0 then return claim.refused end

if #jobs > 16 and kind ~= 'h' then
  -- Redis keeps a hash of short values as a list, which it searches from the front. One long value turns it into a
  -- table; zeros before the number of slots do not change the claim.
  claim.texts[2] = string.gsub(claim.texts[2], '^%d+ %d+ ', '%0' .. string.rep('0', 50), 1)
end
if #jobs > 0 then
  call('HSET', held_key, unpack(claim.texts))
  call('ZADD', key('holders'), time + lease_ms, worker)
  if may_have_suspects or claim.isolates then call('ZREM', key('suspects'), worker) end
  call('HSET', key('meta'), 'token', digits(claim.token), 'seen', time)
elseif is_calm and since >= @SEEN_MS@ then
  call('HSET', key('meta'), 'seen', time)
end

-- One job wakes one worker: what is left is for the next one.
local left = call('LLEN', key('ready')) + call('LLEN', key('turns')) + call('ZCARD', key('priorities'))
local waiting = left > 0
local isolated = (claim.isolates or may_have_suspects) and call('EXISTS', key('isolated')) == 1
if not waiting and not isolated then
  if is_awake() then call('DEL', key('wake')) end
elseif waiting and (#jobs > 0 or claim.looked == 0) or isolated and claim.took_suspects then
  wake_one()
elseif waiting then
  next_ms = 0
end
if waiting and picks.is_spent(claim) then next_ms = 0 end
if not waiting and not isolated then drop_tombstones() end
if has_limits() and gates.soonest then
  local ms = math.max(0, gates.soonest - time)
  next_ms = next_ms < 0 and ms or math.min(next_ms, ms)
  -- Another worker is to learn of the moment, as this one may be busy then.
  if #jobs > 0 and #jobs >= claim.limit then wake_one() end
end
remember(session, number, #jobs > 0 and jobs[1][3] .. ' ' .. jobs[#jobs][3] or '')
return { next_ms, jobs, claim.dropped, claim.how, (#jobs > 0 or claim.looked > 0) and left or 0 }
