-- lib asked: a caller asks the partition that jobs belonged to before a change of the number. Jobs with a lane, a key
-- or an id that is still here are added; the others belong to another partition by now.
-- Defines: mark_elsewhere. Redis: reads and writes.
--@include homes addjobs

-- Note which jobs belong to another partition. Returns the error for a job that is on its way there.
local function mark_elsewhere(jobs)
  local time, on_way, stays = clock(), {}, false
  for _, packed in ipairs(call('LRANGE', key('moving'), 1, -1)) do
    local row = cmsgpack.unpack(packed)
    local _, unique = uniques.key_of(shape_of(row[3]))
    on_way[(row[1] == 'p' and 'lane ' or row[1] == 'k' and 'key ' or 'id ') .. row[2]] = true
    if unique and row[7] ~= '' then on_way['key ' .. unique] = true end
  end
  for _, job in ipairs(jobs) do
    local id, lane, _, unique = job[1], shapes.word(job.shape, 'l'), uniques.key_of(job.shape)
    if on_way['id ' .. id] or lane and on_way['lane ' .. lane] or unique and on_way['key ' .. unique] then
      return redis.error_reply('TNMOVES a job is on its way to the partition that it belongs to')
    end
    local is_here = call('HEXISTS', key('jobs'), id) == 1 or has_ended(id, time) or lane and homes.has_lane(lane)
      or unique and uniques.rival(unique, time) ~= nil
    job.is_elsewhere, stays = not is_here, stays or is_here
  end
  -- What `move` has looked at may have changed.
  if stays then call('HSET', key('mover'), 'dirty', '1') end
end
