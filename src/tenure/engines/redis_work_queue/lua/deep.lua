-- deep: requeue the items that are in no list and have no lease, and whose data was written `config.stray` ms ago; note
-- the others.
-- KEYS[1] prefix
-- ARGV config most left id...
-- Returns: {requeued, {id that was noted in no list...}, {id that is still to be searched for...}}
-- Invariant: an item that was noted is requeued by `unlisted`, if it is still in no list `config.stray` ms later.
-- (Another producer makes an item and lists it in two steps.) In long lists at most `most` ids are searched for. `left`
-- 1: the ids are in `cleaning`, where another client has left them, or moves them; noted are also those that are in a
-- list. Sending it again is harmless.
--@include begin types leases search
local config, most, cleaning = cjson.decode(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
allow_when_full()
check_types()
return_taken()
local time = clock()
local ids = {}
for i = 4, #ARGV do ids[#ids + 1] = ARGV[i] end
local free, others = unleased_of(ids)
local listed = search(free, most)
local is_moving = call('EXISTS', key('cleaning')) == 1
local back, noted, marks, again = {}, {}, {}, {}

-- Whether no producer can be between its two steps, and no cleaner between those of its move: nothing has touched the
-- data for the grace. Redis counts that in whole seconds. It does not know under an LFU policy, and refuses a user
-- without the right.
local function is_abandoned(id)
  if cleaning or is_moving and call('LPOS', key('cleaning'), id) then return false end
  local idle_s = redis.pcall('OBJECT', 'IDLETIME', key('item:' .. id))
  return config.stray == 0 or type(idle_s) == 'number' and (idle_s - 1) * 1000 >= config.stray
end

for _, id in ipairs(free) do
  if listed[id] == nil then
    again[#again + 1] = id
  elseif not listed[id] and is_abandoned(id) then
    back[#back + 1] = id
  elseif cleaning or not listed[id] then
    -- A fraction: it was not seen to be in no list, see `unlisted`.
    marks[#marks + 1], marks[#marks + 2] = listed[id] and time + 0.5 or time, id
    noted[#noted + 1] = not listed[id] and id or nil
  end
end
for _, id in ipairs(cleaning and others or {}) do
  if call('EXISTS', key('item:' .. id)) == 0 then call('LREM', key('cleaning'), 0, id) end
end
if #back > 0 then
  call('LPUSH', key('queue'), unpack(back))
  call('ZREM', key('stray'), unpack(back))
end
-- LT: an earlier mark stays, unless the clock was set back since.
if #marks > 0 then
  call('ZADD', key('stray'), 'LT', unpack(marks))
  call('PEXPIRE', key('stray'), config.stray + @CALLERS_MARK_MS@)
end
return { #back, noted, again }
