-- lib claimothers: a claim of a queue that has more than plain jobs, or in which work is due. A part of `claim`.
-- Needs: ARGV, alone, is_calm, is_crowded, jobs, kind, large_jobs, limited_jobs, micros, number, paused, read, remember, session,
-- take, take_list, time, worker. Sets: crowded, cut_to_bytes, finish, has_others, has_tombstones, has_tries, how, is_skipped,
-- isolates, large, limit, limited, next_ms, start. Defines: note_occupied, suspects, unlaned. Redis: reads and writes.
--@include full waitingtypes task unique tombstones large onhold
allow_when_full()
limited, large = limited_jobs ~= false, large_jobs ~= false
if is_calm then
  check_waiting()
  has_others = not only_lanes
  if only_lanes then has_tombstones = false end
else
--@part claimdue
end
if has_others and uses_features and (paused or hold_left('', time) > 0) then
  call('DEL', key('wake'))
  remember(session, number, '')
  return { next_ms, {}, {}, 0 }
end

has_tries = call('EXISTS', key('tries')) == 1
local unlaned, took_suspects = 0, false
is_skipped = is_tombstone
cut_to_bytes = has_large() and function(ids) return { unpack(ids, 1, readable(ids, @CLAIM_BYTES@ - read)) } end
-- Writes what lib taketurns has left to write about the lanes of the jobs taken so far.
local note_occupied = nil
start = function(id, shape, text)
  if has_key(shape) and uniques.key_of(shape) == 's' then
    if note_occupied then note_occupied() end
    uniques.free_key(shape, id, false)
  end
  if has_places(shape) then starts.note(shape, text, time, micros) end
end

local suspects = nil
-- Take suspects: one that runs alone, or as many as may run together with those that are held.
local function take_suspects()
  if not (has_others or isolates) or #jobs >= limit or call('EXISTS', key('isolated')) == 0 then return end
--@part config suspects
  local config = config_of(ARGV[3])
  local who = { worker = worker, micros = micros, slots = tonumber(kind) or @MAX_HELD@, alone = #jobs > 0 and '' or alone }
  local chosen, window, alone_kind
  chosen, window, alone_kind = suspects.choose(config, time, who, limit - #jobs)
  for _, one in ipairs(chosen) do
    take(one[1], one[2], one[3], one[4], alone_kind)
  end
  if window ~= 0 then how = window end
  if window > 0 then limit = #jobs end
  took_suspects = took_suspects or #chosen > 0
end

crowded = is_crowded()
if not crowded then
  take_suspects()
  if uses_features and #jobs < limit then
--@include takelevels
    take_levels()
  elseif #jobs < limit then
    take_list('ready', limit - #jobs)
  end
  take_suspects()
end
has_others, isolates = has_others or isolates, took_suspects

finish = function(more)
  if not more then drop_tombstones() end
  if not has_limits() or not gates.soonest then return end
  local ms = math.max(0, gates.soonest - time)
  next_ms = next_ms < 0 and ms or math.min(next_ms, ms)
  -- Another worker is to learn of the moment, as this one may be busy then.
  if #jobs > 0 and #jobs >= limit then wake_one() end
end
