-- claim: take up to `limit` jobs from the front of `ready` for a worker, of a queue in which only plain jobs and plain
-- members of groups wait and no work is due. For all others there is claim_full.
-- KEYS[1] prefix
-- ARGV session number config worker limit lease_ms kind
-- kind: how many jobs the worker runs at one time; or h, a lease by hand.
-- Returns: what claim_full returns; or, when nothing has changed, + for a queue that is more than plain, and - when
-- only this call must be made with claim_full.
-- Invariant: a claimed job is in `held:<worker>` and no longer in line; its worker is in `holders`; its token is higher
-- than any before.
--@include keys clock digits number tokens answers full wake counted nearest shapeof
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local limit, lease_ms, kind = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local held_key = key('held:' .. worker)
if recall(session, number) then return '-' end

-- Read the keys that are written below: a wrong type is an error here, before anything has changed.
local time, micros = clock()
local facts = call('HMGET', key('meta'), 'seen', 'layout', 'limited', 'large', 'token')
local seen, layout, limited, large, last_token = unpack(facts, 1, 5)
local since = time - (tonumber(seen) or math.huge)
local lapse = call('ZRANGE', key('holders'), '0', '0', 'WITHSCORES')[2]
local due = call('ZRANGE', key('scheduled'), '0', '0', 'WITHSCORES')[2]
local next_ms = ms_until(time, lapse, due)
local room = @MAX_HELD@ - call('HLEN', held_key)
local is_due = next_ms == 0 or since < 0 or since >= @SEEN_MS@ and since > number_in(ARGV[3], 'outage')
local is_first = lapse and room == @MAX_HELD@ -- The number of workers that may hold jobs is limited.
if is_due or is_first and call('ZCARD', key('holders')) >= @MAX_HOLDERS@ then return '-' end
if limited or large or (tonumber(layout) or 1) ~= @LAYOUT@ then return '+' end
-- Most queues have none of these keys when a job comes to an idle worker, so one command asks for all.
local others, has_tries = call('EXISTS', key('isolated'), key('turns'), key('priorities'), key('holds'), key('ghosts'),
  key('suspects'), key('tries'), key('settings'), key('wake')), 0
if others == 0 then
  is_awake(false)
else
  has_tries = call('EXISTS', key('tries'))
  local has_settings = call('EXISTS', key('settings'))
  if others > has_tries + has_settings + (is_awake() and 1 or 0)
    or has_settings > 0 and call('HGET', key('settings'), 'paused') then
    return '+'
  end
end
limit = math.min(limit, room)
local most = math.min(limit, math.floor(@CLAIM_BYTES@ / @LARGE_BYTES@))
local ids = most > 0 and call('LRANGE', key('ready'), '0', most - 1) or {}
local records, tries = {}, {}
if #ids > 0 then
  records = call('HMGET', key('jobs'), unpack(ids))
  if has_tries > 0 then tries = call('HMGET', key('tries'), unpack(ids)) end
end

local jobs, claims, taken = {}, {}, {}
local token, rest = math.max(tonumber(last_token or 0), micros), ' ' .. time .. ' ' .. kind
for n, id in ipairs(ids) do
  local record = records[n]
  local failures, crashes, doubtful = counted(tries[n])
  if not record or taken[id] or doubtful > 0 or #record > @LARGE_BYTES@ then return '-' end
  local shape = string.find(record, '=', 1, true) and shape_of(record) or ''
  if shape ~= '' and not string.find(shape, '^f=%S+$') then return '+' end
  token, taken[id] = token + 1, true
  local text = token_text(token)
  jobs[n] = { id, record, text, failures, crashes }
  claims[2 * n - 1], claims[2 * n] = id, text .. rest .. (shape ~= '' and ' ' .. shape or '')
end

if #ids > 0 then
  call('LTRIM', key('ready'), #ids, '-1')
  -- Redis keeps a hash of short values as a list, which it searches from the front. One long value turns it into a
  -- table; zeros before the number of slots do not change the claim.
  if #ids > 16 and kind ~= 'h' then claims[2] = string.gsub(claims[2], '^%d+ %d+ ', '%0' .. string.rep('0', 50), 1) end
  call('HSET', held_key, unpack(claims))
  call('ZADD', key('holders'), time + lease_ms, worker)
  call('HSET', key('meta'), 'token', digits(token), 'seen', time)
else
  allow_when_full()
  if since >= @SEEN_MS@ then call('HSET', key('meta'), 'seen', time) end
end

-- One job wakes one worker: what is left is for the next one.
local left = #ids >= most and call('LLEN', key('ready')) or 0
if left > 0 then
  wake_one()
  if most < limit then next_ms = 0 end
elseif is_awake() then
  call('DEL', key('wake'))
end
remember(session, number, #ids > 0 and jobs[1][3] .. ' ' .. jobs[#jobs][3] or '')
return { next_ms, jobs, {}, 0, #ids > 0 and left or 0 }
