-- unlisted: requeue the items that were noted `config.stray` ms ago, and are still in no list.
-- KEYS[1] prefix
-- ARGV config most count
-- Returns: {requeued, 1 when more are due, ms until a mark of any kind is due or -1}
-- Invariant: an item goes to the left end of `queue` when it had no lease and was in no list twice, `config.stray` ms
-- apart. Looks at `count` marks, oldest first, and forgets them. In long lists at most `most` ids are searched for.
-- Sending it again is harmless.
--@include begin types leases marks search
local config, most, count = cjson.decode(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
allow_when_full()
check_types()
return_taken()
local time = clock()
forget_marks(config, time)
local due = time - config.stray
local found = call('ZRANGEBYSCORE', key('stray'), '-inf', due, 'WITHSCORES', 'LIMIT', 0, count)
local ids, is_sight = {}, {}
for n = 1, #found, 2 do
  ids[#ids + 1] = found[n]
  is_sight[found[n]] = tonumber(found[n + 1]) % 1 == 0
end
local free, done = unleased_of(ids)
local listed, back = search(free, most), {}
for _, id in ipairs(free) do
  if listed[id] == false and not is_sight[id] then
    -- It was noted when it was added again, or was in `cleaning`: this is the first time that it is seen in no list.
    call('ZADD', key('stray'), time, id)
  elseif listed[id] ~= nil then
    done[#done + 1] = id
    if not listed[id] then back[#back + 1] = id end
  end
end
if #back > 0 then call('LPUSH', key('queue'), unpack(back)) end
if #done > 0 then call('ZREM', key('stray'), unpack(done)) end
if call('EXISTS', key('cleaning')) == 1 then
  for _, id in ipairs(done) do call('LREM', key('cleaning'), 0, id) end
end

local next_ms = -1
for _, kind in ipairs({ 'unleased', 'stray' }) do
  local first = call('ZRANGEBYSCORE', key(kind), '(' .. digits(due), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local left = first and math.ceil(first - due)
  if left and (next_ms < 0 or left < next_ms) then next_ms = left end
end
local more = #ids == count or #free + #done > 0 and call('ZCOUNT', key('stray'), '-inf', due) > 0
return { #back, more and 1 or 0, next_ms }
