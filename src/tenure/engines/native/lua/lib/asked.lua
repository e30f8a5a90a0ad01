-- lib asked: a caller asks the partition that jobs belonged to before a change of the number. Those of a lane, a key or an id that is
-- still here are added; the others belong to another partition by now. A part of `enqueue_shaped`.
-- Needs: ARGV, has_ended, shape_at, shape_of, time, uniques. Sets: is_here. Redis: reads and writes.
--@include homes
is_here = {}
local on_way, stays = {}, false
for _, packed in ipairs(call('LRANGE', key('moving'), 1, -1)) do
  local row = cmsgpack.unpack(packed)
  local _, unique = uniques.key_of(shape_of(row[3]))
  on_way[(row[1] == 'p' and 'lane ' or row[1] == 'k' and 'key ' or 'id ') .. row[2]] = true
  if unique and row[7] ~= '' then on_way['key ' .. unique] = true end
end
for i = 4, #ARGV, 4 do
  local id, shape = ARGV[i], shape_at[i] or ''
  local lane, _, unique = shapes.word(shape, 'l'), uniques.key_of(shape)
  if on_way['id ' .. id] or lane and on_way['lane ' .. lane] or unique and on_way['key ' .. unique] then
    return redis.error_reply('TNMOVES a job is on its way to the partition that it belongs to')
  end
  is_here[i] = call('HEXISTS', key('jobs'), id) == 1 or has_ended(id, time) or lane and homes.has_lane(lane)
    or unique and uniques.rival(unique, time) ~= nil
  stays = stays or is_here[i]
end
-- What `move` has looked at may have changed.
if stays then call('HSET', key('mover'), 'dirty', '1') end
