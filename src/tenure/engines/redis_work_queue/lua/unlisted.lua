-- unlisted: requeue items that have no lease and were in no list for `config.stray` ms; mark the others.
-- KEYS[1] prefix
-- ARGV config most left id...
--   left: 1: the ids are in `cleaning`, where another client has left them, or moves them.
--   id: an item that may be in no list. Without ids: the marked items that are due, at most @STRAY_PAGE@, oldest first.
-- Returns: {requeued, {id that got a mark in no list...}, {id that is still to be searched for...}, 1 when more marks
-- are due, ms until a mark of any kind is due or -1}
-- Invariant: an item goes to the left end of `queue` when it is in no list and had no lease, and either it was so
-- `config.stray` ms ago, or its data was written before then. In long lists at most `most` ids are searched for.
-- Race: another producer makes an item and lists it in two steps, and another cleaner moves one by way of `cleaning`.
-- Between its steps the item is in no list. It ends both within the grace, so an item is requeued after that only.
-- Sending it again is harmless.
--@include begin types leases marks search
local config, most, left = cjson.decode(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
allow_when_full()
check_types()
return_taken()
local time = clock()
forget_marks(config, time)
local due, ids = time - config.stray, { unpack(ARGV, 4) }
if #ids == 0 then ids = call('ZRANGEBYSCORE', key('stray'), '-inf', due, 'LIMIT', 0, '@STRAY_PAGE@') end
local since, is_moving = {}, call('EXISTS', key('cleaning')) == 1
for _, id in ipairs(ids) do
  local mark = tonumber(call('ZSCORE', key('stray'), id) or nil)
  if mark and mark <= time then since[id] = mark end -- else the clock was set back
end

local function is_due(id) return since[id] and since[id] <= due end

-- Whether the item was seen in no list: the mark is a whole number. Else it may have been in one.
local function is_sight(id) return since[id] and since[id] % 1 == 0 end

-- Whether no other client can be between two steps. Redis counts idle time in whole seconds. It does not know it under
-- an LFU policy, and refuses it to a user without the right.
local function is_abandoned(id)
  if is_due(id) and is_sight(id) then return true end
  if left or is_moving and call('LPOS', key('cleaning'), id) then return false end
  local idle_s = redis.pcall('OBJECT', 'IDLETIME', key('item:' .. id))
  return config.stray == 0 or type(idle_s) == 'number' and (idle_s - 1) * 1000 >= config.stray
end

local free, others = unleased_of(ids)
local listed, back, noted, marks, again, done = search(free, most), {}, {}, {}, {}, {}
for _, id in ipairs(free) do
  if listed[id] == nil then
    again[#again + 1] = id
  elseif not listed[id] and is_abandoned(id) then
    back[#back + 1], done[#done + 1] = id, id
  elseif not listed[id] then
    noted[#noted + 1] = id
    if not is_sight(id) then marks[#marks + 1], marks[#marks + 2] = time, id end
  elseif left then
    if not since[id] then marks[#marks + 1], marks[#marks + 2] = time + 0.5, id end
  else
    done[#done + 1] = id
  end
end
for _, id in ipairs(others) do
  if is_due(id) or call('EXISTS', key('item:' .. id)) == 0 then done[#done + 1] = id end
end
if #back > 0 then call('LPUSH', key('queue'), unpack(back)) end
if #done > 0 then call('ZREM', key('stray'), unpack(done)) end
if is_moving then
  for _, id in ipairs(done) do call('LREM', key('cleaning'), 0, id) end
end
if #marks > 0 then
  call('ZADD', key('stray'), unpack(marks))
  call('PEXPIRE', key('stray'), config.stray + @CALLERS_MARK_MS@)
end

local next_ms = -1
for _, kind in ipairs({ 'unleased', 'stray' }) do
  local first = call('ZRANGEBYSCORE', key(kind), '(' .. digits(due), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local wait = first and math.ceil(first - due)
  if wait and (next_ms < 0 or wait < next_ms) then next_ms = wait end
end
local is_more = #ids > 0 and call('ZCOUNT', key('stray'), '-inf', due) > 0
return { #back, noted, again, is_more and 1 or 0, next_ms }
