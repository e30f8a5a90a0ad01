-- lib marks: since when an id was seen in `processing` without a lease (`unleased`), or an item in no list (`stray`).
-- Seen so again after `config.stray` ms, it is requeued. Between two looks another client may have leased the item, or
-- completed it and added another one of its id. So a mark counts only for `config.mark` ms more, and only for the next
-- look.
local function forget_marks(config, time)
  local old = time - config.stray - config.mark
  call('ZREMRANGEBYSCORE', key('unleased'), '-inf', old)
  call('ZREMRANGEBYSCORE', key('stray'), '-inf', old)
end

-- The mark of an id in `processing`: the time, and as its fraction how many ids are older in the list. Ids enter the
-- list on the other side, so an entry never has more; one that has is another entry of its id.
local MOST_OLDER = 4095
local function mark_of(time, place) return string.format('%.17g', time + math.min(place, MOST_OLDER) / 4096) end

-- Since when the id at this place was seen without a lease, or (`others`) when a pass met it with a lease of another
-- client; nil for a mark that proves nothing: it is of another entry, or of a time before the clock was set back.
local function seen_since(time, id, place, kind)
  local mark = tonumber(call('ZSCORE', key(kind or 'unleased'), id) or nil)
  local since = mark and math.floor(mark)
  if not mark or since > time then return nil end
  local older = (mark - since) * 4096
  return (place <= older or older == MOST_OLDER) and since or nil
end

local function is_mark_due(config, time)
  return #call('ZRANGEBYSCORE', key('unleased'), '-inf', time - config.stray, 'LIMIT', 0, 1) > 0
end

-- At the end of a pass that began then: forget the marks that were due, since the pass has met none of their ids
-- without a lease, and the leases of other clients that it has not met.
local function forget_missed(config, began, is_empty)
  call('ZREMRANGEBYSCORE', key('others'), '-inf', is_empty and '+inf' or '(' .. digits(began))
  call('ZREMRANGEBYSCORE', key('unleased'), '-inf', is_empty and '+inf' or began - config.stray)
end
