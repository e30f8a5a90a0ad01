-- lib settleother: completions of jobs with a shape, or in a queue in which jobs have failed, are watched or have notes. A part of
-- `settle`.
-- Needs: ARGV, completes, counted, held, ids, number_in. Sets: completed_ids, finish, noted, settle_other, tries, watching.
-- Defines: return_to_front, settle_uncompleted, shape_at, woken. Redis: reads and writes.
--@include full waitingtypes unique notes watched
allow_when_full()
tries, completed_ids = {}, {}
local shape_at, shaped, placed, woken, is_persistent, is_unique = {}, {}, {}, false, false, false
for n in ipairs(ids) do
  if held[n] and string.find(held[n], '=', 1, true) then
    shape_at[n] = shape_of(held[n])
    shapes.check(shape_at[n])
    is_persistent = is_persistent or shapes.word(shape_at[n], 'k') ~= nil
    is_unique = is_unique or has_key(shape_at[n])
  end
end
-- Most of these calls only complete jobs of lanes, of a queue in which no job has failed, is watched or has notes.
if completes and not is_persistent and not is_unique and not has_limits()
  and call('EXISTS', key('tries'), key('watched'), key('cancelling'), key('progress')) == 0 then
  check_waiting()
  is_awake()
  noted, watching = false, false
else
--@part types
  check_types()
  if call('EXISTS', key('tries')) == 1 then tries = call('HMGET', key('tries'), unpack(ids)) end
end

-- Settle a job that is not completed; and what is left to do in the end.
local settle_uncompleted, return_to_front
if is_persistent or not completes then
--@part settleuncompleted
end

settle_other = function(id, n, at, claimed)
  local token, kind, shape = ARGV[at + 1], ARGV[at + 2], shape_at[n] or ''
  if shape ~= '' and has_places(shape) then placed[#placed + 1] = { token, shape } end
  local failures, crashes, doubtful = counted(tries[n])
  local persists = kind == 'c' and shape ~= '' and shapes.word(shape, 'k')
  -- After the end of a suspect another one may start.
  woken = woken or doubtful > 0 and doubtful >= number_in(ARGV[3], 'isolate')
  if kind == 'c' and not persists then
    shaped[id] = shape ~= '' and shape or nil
    return nil
  elseif call('HEXISTS', key('jobs'), id) == 0 then
    return false
  end
  settle_uncompleted(id, n, at, claimed, persists, failures, crashes, doubtful)
  return true
end

finish = function()
  if #completed_ids > 0 and #tries > 0 then call('HDEL', key('tries'), unpack(completed_ids)) end
  clear_notes(completed_ids)
  local lanes_of, laned = {}, {}
  for _, id in ipairs(completed_ids) do
    local lane = shaped[id] and shapes.word(shaped[id], 'l')
    if lane then
      lanes_of[#lanes_of + 1] = lane
      laned[#laned + 1] = id
    end
  end
  if #laned > 0 then lanes.leave(lanes_of, laned) end
  for _, id in ipairs(completed_ids) do
    if shaped[id] and has_key(shaped[id]) then uniques.free_key(shaped[id], id, false) end
    publish_end(id, 'completed')
  end
  if return_to_front then return_to_front() end
  if #placed > 0 then places.free(placed) end
  if woken then wake_one() end
end
