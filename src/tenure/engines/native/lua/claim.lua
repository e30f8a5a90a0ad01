-- claim: take up to `limit` jobs from the front of a queue for a worker.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms kind alone of_lane
-- `kind`: how many jobs the worker runs at one time; or h, a lease by hand.
-- `alone`: the kind of the claim of a job that has to run alone: x, y (beside suspects that have run for long), or '': not now.
-- `of_lane`: most jobs of one lane and task, following each other, that one claim may take.
-- Returns: {ms until more is due or -1, {id, record, token, failures, crashes}..., {dropped id...}, how, left}. `left`: about how many
-- jobs could be claimed next. `how` above 0: the
-- job runs alone, and the worker claims nothing beside it for `how` ms; -1: the worker is to prepare for such a job; else 0. An error when another program's data is in the place of the list whose turn it is.
-- Invariant: a claimed job is in `held:<worker>` and no longer in line; its worker is in `holders`; its token is higher
-- than any before it; a lane has no more jobs held than its limit, or `of_lane`; no limit of a job is exceeded.
--@include keys digits number tokens answers wake counted nearest shapeof
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local limit, lease_ms, kind = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local alone, of_lane, by_hand = ARGV[8], tonumber(ARGV[9]), kind == 'h'
local held_key = key('held:' .. worker)

--@include again
if again then
--@part claimedagain
end

-- Reads of the keys that are written below: a wrong type is an error here, before anything has changed. (Of the list of jobs, the
-- first one that is written, it is one by itself.) While no work is due, a claim only takes jobs. If none of the others is there, these
-- can only be plain jobs of `ready`, and most claims need no more.
--@include now
local seen, layout, limited_jobs, large_jobs, last_token =
  unpack(call('HMGET', key('meta'), 'seen', 'layout', 'limited', 'large', 'token'), 1, 5)
local since = time - (tonumber(seen) or math.huge)
local lapse = call('ZRANGE', key('holders'), '0', '0', 'WITHSCORES')[2]
local due = call('ZRANGE', key('scheduled'), '0', '0', 'WITHSCORES')[2]
local paused = call('HGET', key('settings'), 'paused')
local next_ms = ms_until(time, lapse, due)
local room = @MAX_HELD@ - call('HLEN', held_key)
local is_calm = next_ms ~= 0 and since >= 0 and (since < @SEEN_MS@ or since <= number_in(ARGV[3], 'outage'))
  and not limited_jobs and (tonumber(layout) or 1) == @LAYOUT@
local is_plain = is_calm and not large_jobs and not paused
  and call(
    'EXISTS', key('isolated'), key('turns'), key('priorities'), key('holds'), key('ghosts'), key('suspects'), key('unique'),
    key('again')
  ) == 0
is_awake()

local jobs, claims, dropped, taken = {}, {}, {}, {}
local how, read, looked, turned = 0, 0, 0, 0
local token, has_tries, isolates = math.max(tonumber(last_token or 0), micros), nil, false
-- Of queues that are more than plain: whether an entry is a tombstone, those of some entries that one call may read, and what is done at
-- the start of a job and at the end of a claim.
local is_skipped, cut_to_bytes, start, finish
-- Whether the queue may have more than `ready` and lanes.
local has_others = not is_plain
-- The text of a claim after its token.
local claim_rest = ' ' .. time .. ' ' .. kind

local function take(id, record, failures, crashes, alone_kind)
  taken[id] = true
  read = read + #record
  if #record > @LARGE_BYTES@ and not large_jobs then
    call('HSET', key('meta'), 'large', '1') -- see lib large
    large_jobs = true
  end
  token = token + 1
  local text, rest = token_text(token), alone_kind and not by_hand and ' ' .. time .. ' ' .. alone_kind or claim_rest
  local equals = string.find(record, '=', 1, true)
  local shape = equals and shape_of(record) or ''
  if shape ~= '' then
    rest = rest .. ' ' .. shape
    if start then start(id, shape, text) end
  end
  jobs[#jobs + 1] = { id, record, text, failures, crashes }
  claims[#claims + 1], claims[#claims + 2] = id, text .. rest
end

-- Whether no further worker may hold jobs.
local function is_crowded()
  return lapse and room == @MAX_HELD@ and call('ZCARD', key('holders')) >= @MAX_HOLDERS@
    and not call('ZSCORE', key('holders'), worker)
end

--@include takelist
local crowded = nil
limit = math.min(limit, room)
if is_plain then
  crowded = is_crowded()
  if not crowded then take_list('ready', limit) end
else
--@part claimothers
end
if crowded then
  return redis.error_reply('LHHOLDERS @MAX_HOLDERS@ workers and leases by hand hold jobs of this queue: that is the limit')
end
if refused and #jobs == 0 then return refused end

if looked == 0 then
--@part full
  allow_when_full()
end
if #jobs > 16 and not by_hand then
  -- Redis keeps a hash of short values as a list, which it searches from the front. One long value turns it into a table; zeros
  -- before the number of slots do not change the claim.
  claims[2] = string.gsub(claims[2], '^%d+ %d+ ', '%0' .. string.rep('0', 50), 1)
end
if #jobs > 0 then
  call('HSET', held_key, unpack(claims))
  call('ZADD', key('holders'), time + lease_ms, worker)
  if has_others then call('ZREM', key('suspects'), worker) end
  call('HSET', key('meta'), 'token', digits(token), 'seen', time)
elseif is_calm and since >= @SEEN_MS@ then
  call('HSET', key('meta'), 'seen', time)
end

-- One job wakes one worker: what is left is for the next one.
local left = 0
if looked > 0 or limit < 1 or not is_plain then
  left = call('LLEN', key('ready'))
  if not is_plain or isolates then left = left + call('LLEN', key('turns')) + call('ZCARD', key('priorities')) end
end
local waiting = left > 0
local isolated = (isolates or has_others) and call('EXISTS', key('isolated')) == 1
if not waiting and not isolated then
  if is_awake() then call('DEL', key('wake')) end
elseif waiting and (#jobs > 0 or looked == 0) or isolated and isolates then
  wake_one()
elseif waiting then
  next_ms = 0
end
if waiting and is_spent() then next_ms = 0 end
if finish then finish(waiting or isolated) end
remember(session, number, #jobs > 0 and jobs[1][3] .. ' ' .. jobs[#jobs][3] or '')
return { next_ms, jobs, dropped, how, (#jobs > 0 or looked > 0) and left or 0 }
