-- lib search: which items are in no list. One search of a list for many ids costs as much as some dozens for one id.
--@include lists nested
local PLACES = { 'queue', 'processing' }

-- Whether these ids are in a list: id -> true or false. In long lists the script searches for at most `most` ids; the
-- others have no answer.
local function search(ids, most)
  local listed, size = {}, 0
  for _, place in ipairs(PLACES) do size = size + call('LLEN', key(place)) end
  if #ids <= most or size > @SEARCH_MAX@ then
    for n = 1, math.min(#ids, most) do
      listed[ids[n]] = false
      for _, place in ipairs(PLACES) do
        listed[ids[n]] = listed[ids[n]] or call('LPOS', key(place), ids[n]) and true
      end
    end
    return listed
  end
  for _, place in ipairs(PLACES) do
    for id, places in pairs(find(key(place), ids, false)) do listed[id] = listed[id] or #places > 0 end
  end
  return listed
end

local function is_item(id)
  local name = key('item:' .. id)
  if call('TYPE', name).ok ~= 'string' then return false end
  return call('PTTL', name) == -1 and not is_nested(id) -- items never expire: what does is a key of another queue
end

-- The ids that have items and that no client has leased; then the others. Keys of another queue are not items.
local function unleased_of(ids)
  if #ids == 0 then return {}, {} end
  local leases = leases_of(ids)
  local free, others = {}, {}
  for n, id in ipairs(ids) do
    local list = not leases[n] and is_item(id) and free or others
    list[#list + 1] = id
  end
  return free, others
end
