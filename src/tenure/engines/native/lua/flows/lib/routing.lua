-- lib routing: the way of a follow-up job through the partitions of its queue, by the map that this one has noted. Each
-- partition that it comes to adds it or sends it on.
-- Needs: shape_of, uniques. Defines: routing. Redis: reads and writes.
--@include noted homes sending
local routing = {}

-- The name under which `out` has a place of this queue.
local function name_of(partition)
  return sending.queue .. (partition > 0 and '%2F' .. partition or '')
end

-- Whether something of a job is here, so that it comes here during a change of the number of partitions.
local function is_bound(job, shape)
  local lane, _, unique = shapes.word(shape, 'l'), uniques.key_of(shape)
  return call('HEXISTS', key('jobs'), job[1]) == 1 or call('HEXISTS', key('ended'), job[1]) == 1
    or lane and homes.has_lane(lane) or unique and uniques.rival(unique, clock()) ~= nil
end

-- The place that a job goes to from here; nil: it belongs here. A job is {id, record, due, rule}; `source` has sent it.
-- During a change, one with a lane, a key or an id of its own goes to its old partition first, which alone knows
-- whether something of these is left there.
function routing.next_place(job, source)
  if noted_version() == 0 then return nil end
  local id, shape = job[1], shape_of('0 ' .. job[2])
  local home, here = homes.of(id, shape), homes.partition
  if homes.changes and (job[4] ~= '0' or shape ~= '') then
    local old = homes.of(id, shape, tonumber(homes.before))
    if old ~= here and (home ~= here or source ~= name_of(old)) then return name_of(old) end
    if old == here and home ~= here and is_bound(job, shape) then
      call('HSET', key('mover'), 'dirty', '1') -- what `move` has looked at may have changed
      return nil
    end
  end
  return home ~= here and name_of(home) or nil
end
