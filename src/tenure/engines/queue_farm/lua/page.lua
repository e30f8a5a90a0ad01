-- page: some jobs of one state in their order, those that ended newest first; or those that wait in one lane.
-- KEYS[1] prefix
-- ARGV state lane offset limit place number mark entry
-- Returns: {how many there are, {place, number, mark, entry} of the next page or nothing, row...}
-- Invariant: changes nothing. In a lane that waits for its turn, only the next job is ready.
--@include begin back view pages
local state, lane = ARGV[1], ARGV[2]
open_page(3)
local rows, total = {}, 0
local function show(row) rows[#rows + 1] = row end

if lane ~= '' then
  total = lengths_of(lane) or 0
  local passed = cursor.place == '' and 0 or passed_in_list(queue_key(lane), -1, function() return '' end)
  read_place(total, passed, function(from, count)
    local ids = call('LRANGE', queue_key(lane), -from - count, -from - 1)
    for n = #ids, 1, -1 do show(view_of(ids[n], lane)) end
    return { 'lane', digits(total - from - count), '', ids[1] }
  end)
elseif state == 'ready' then
  local function show_next(one)
    local _, active = lengths_of(one)
    local id = active == 0 and call('LINDEX', queue_key(one), -1)
    if id then show(view_of(id, one)) end
  end
  -- Where no worker has looked yet, the jobs of original producers are in no turn.
  local news = call('SDIFF', wire('active'), key('known'))
  total = call('ZCARD', key('ready')) + #news
  if cursor.place ~= 'unseen' then read_set('ready', key('ready'), false, show_next) end
  read_sorted('unseen', news, show_next)
elseif state == 'active' then
  local ids, of = {}, {}
  for _, name in ipairs({ 'claims', 'foreign' }) do
    for _, one in ipairs(call('HKEYS', key(name))) do
      for _, id in ipairs(lengths_of(one) and call('LRANGE', active_key(one), 0, -1) or {}) do
        ids[#ids + 1], of[id] = id, one
      end
    end
  end
  total = #ids
  read_sorted('active', ids, function(id) show(view_of(id, of[id])) end)
elseif state == 'failed' or state == 'broken' or state == 'cancelled' then
  total = call('ZCARD', key(state))
  read_set(state, key(state), true, function(id)
    local job = kept_of(id)
    if job then show(kept_row(id, job)) end
  end)
end
return { total, next_cursor(), rows }
