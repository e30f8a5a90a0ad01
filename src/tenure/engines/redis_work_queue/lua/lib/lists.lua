-- lib lists: the two lists that clients share. They may be long, and searching one costs the same for one id as for
-- hundreds. Ids are searched for together, from both ends, as an id is mostly near one of them.

-- Return the ids that waits took and no claim adopted to the front of the queue: see docs/decisions/0021.
local function return_taken()
  for _ = 1, math.min(call('LLEN', key('taken')), @MAX_HOLDERS@) do
    call('LMOVE', key('taken'), key('queue'), 'LEFT', 'RIGHT')
  end
end

-- Find ids in a list: for each id the places of its copies, from the left, or negative from the right. `whole`: find
-- all copies; else stop when each id was seen once.
local function find(list, ids, whole)
  local places, missing = {}, 0
  for _, id in ipairs(ids) do
    if not places[id] then places[id], missing = {}, missing + 1 end
  end
  local size, left, right, page, from_right = call('LLEN', list), 0, 0, 125, false
  while left + right < size and (whole or missing > 0) do
    local count = math.min(page, size - left - right)
    local first = from_right and -right - count or left
    for n, id in ipairs(call('LRANGE', list, first, first + count - 1)) do
      local at = places[id]
      if at then
        missing = missing - (#at == 0 and 1 or 0)
        at[#at + 1] = first + n - 1
      end
    end
    if from_right then
      right, page = right + count, math.min(2 * page, 1000)
    else
      left = left + count
    end
    from_right = not from_right
  end
  return places
end

-- Take out the entries at these places of a list. Redis cannot delete by place, so entries are first overwritten with a
-- text that no id has, and then removed from both ends.
local function strike(list, places)
  local gone, left, right = '\0tenure gone', 0, 0
  for _, place in ipairs(places) do
    call('LSET', list, place, gone)
    if place < 0 then
      right = right + 1
    else
      left = left + 1
    end
  end
  if left > 0 then call('LREM', list, left, gone) end
  if right > 0 then call('LREM', list, -right, gone) end
end

-- Rewrite a list without these ids.
local function rewrite(list, ids)
  local goes, there, stay = {}, {}, {}
  for _, id in ipairs(ids) do goes[id] = true end
  for _, id in ipairs(call('LRANGE', list, 0, -1)) do
    if goes[id] then
      there[id] = true
    else
      stay[#stay + 1] = id
    end
  end
  call('DEL', list)
  if #stay > 0 then call('RPUSH', list, unpack(stay)) end
  return there
end

-- Take ids out of a list, with `whole` all their copies. Returns which ids were there: id -> true.
local function take_out(list, ids, whole)
  local there, places, size = {}, {}, call('LLEN', list)
  if whole and size <= 1000 and size <= 4 * #ids then
    return rewrite(list, ids)
  elseif #ids < 8 then
    -- Redis itself finds a few ids sooner.
    for _, id in ipairs(ids) do
      local how = whole and 0 or call('LPOS', list, id, 'MAXLEN', 1000) and 1 or -1
      there[id] = call('LREM', list, how, id) > 0 or there[id]
    end
    return there
  end
  for id, found in pairs(find(list, ids, whole)) do
    there[id] = #found > 0
    for _, place in ipairs(found) do places[#places + 1] = place end
  end
  strike(list, places)
  return there
end
