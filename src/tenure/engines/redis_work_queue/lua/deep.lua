-- deep: note the items that are in no list and have no lease.
-- KEYS[1] prefix
-- ARGV most left id...
-- Returns: {items in no list, {id that is still to be searched for...}}
-- Invariant: an item that was noted is requeued by `unlisted`, if it is still in no list `config.stray` ms later. (Another producer
-- makes an item and lists it in two steps.) In long lists at most `most` ids are searched for. `left` 1: the ids are in
-- `cleaning`, where another client has left them, or moves them; noted are also those that are in a list.
-- Sending it again is harmless.
--@include begin types leases search
local most, cleaning = tonumber(ARGV[1]), ARGV[2] == '1'
allow_when_full()
check_types()
local time = clock()
local ids = {}
for i = 3, #ARGV do ids[#ids + 1] = ARGV[i] end
local free, others = unleased_of(ids)
local listed = search(free, most)
local marks, again, count = {}, {}, 0
for _, id in ipairs(free) do
  if listed[id] == nil then
    again[#again + 1] = id
  elseif cleaning or not listed[id] then
    -- A fraction: it was not seen to be in no list, see `unlisted`.
    marks[#marks + 1], marks[#marks + 2] = listed[id] and time + 0.5 or time, id
    count = count + (listed[id] and 0 or 1)
  end
end
for _, id in ipairs(cleaning and others or {}) do
  if call('EXISTS', key('item:' .. id)) == 0 then call('LREM', key('cleaning'), 0, id) end
end
-- LT: an earlier mark stays, unless the clock was set back since.
if #marks > 0 then call('ZADD', key('stray'), 'LT', unpack(marks)) end
return { count, again }
