-- deep: requeue items that have been in neither list for a time.
-- KEYS[1] prefix
-- ARGV config most id...
-- Returns: {items requeued, items noted for the next time, {id that is still to be searched for...}}
-- Invariant: an item goes to the left end of `queue` when it had no lease and was in no list twice, `config.stray` ms apart, and is
-- in none now. (Another producer makes an item and lists it in two steps.) Searches the lists for at most `most` ids.
-- Sending it again is harmless.
--@include begin types marks leases nested
local config, most = cjson.decode(ARGV[1]), tonumber(ARGV[2])
allow_when_full()
check_types()
local time = clock()
local ids = {}
for i = 3, #ARGV do ids[#ids + 1] = ARGV[i] end
local items = call('MGET', unpack(keys_of('item:', ids)))
local leases = leases_of(ids)
local cleaning = call('LLEN', key('cleaning')) > 0
local back, marked, left, searched = {}, {}, {}, 0
for n, id in ipairs(ids) do
  local since = tonumber(call('ZSCORE', key('stray'), id) or nil)
  if not items[n] or leases[n] or is_nested(id) then
    if since then call('ZREM', key('stray'), id) end
    if not items[n] and cleaning then call('LREM', key('cleaning'), 0, id) end
  elseif not since or since > time or time - since >= config.stray + @MARK_MS@ then
    marked[#marked + 1] = time
    marked[#marked + 1] = id
  elseif time - since >= config.stray and searched >= most then
    left[#left + 1] = id
  elseif time - since >= config.stray then
    searched = searched + 1
    if not call('LPOS', key('queue'), id) and not call('LPOS', key('processing'), id) then
      back[#back + 1] = id
    end
    if cleaning then call('LREM', key('cleaning'), 0, id) end
    call('ZREM', key('stray'), id)
  end
end
if #back > 0 then call('LPUSH', key('queue'), unpack(back)) end
if #marked > 0 then
  call('ZADD', key('stray'), unpack(marked))
  forget_marks(config, time)
end
return { #back, #marked / 2, left }
