-- retry: run a job now that failed, broke, was cancelled, waits for its time, or is parked. Its counts start again.
-- KEYS[1] prefix
-- ARGV session number id edited payload map limited limits share unique
-- edited 1: the job gets this payload. limited 1: it gets these limits and this share, each of them empty for none.
-- unique: the key of its new arguments; empty: it keeps its key. map: the version of the map of the queue's partitions
-- that the caller knows.
-- Returns: 1, with `~` if word is on its way, or 0 when there is no such job, or it is ready, active or completed; or :
-- and the id of another job that has its unique key now. Errors: TNPARTS if the job cannot be in one of several
-- partitions, TNMOVES if it must be moved to its partition first.
-- Invariant: the job is in `jobs` and ready, and has no end. Where its lane waits for it, it is at the front.
--@include begin types answers find reshape ends large noted homes transition
local session, number, id, edited, payload = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5]
local limited_now, limit_words, share = ARGV[7] == '1', ARGV[8] ~= '' and ARGV[8] or nil,
  ARGV[9] ~= '' and ARGV[9] or nil
local new_key = ARGV[10] ~= '' and ARGV[10] or nil
local again = transition(session, number)
if again then return again end
local outdated_map = outdated(tonumber(ARGV[6]))
if outdated_map then return outdated_map end
local state, detail, record = find(id)
-- The record with the new payload, limits, share and unique key. A malformed record becomes the record of a raw
-- payload.
local function edit(record)
  if not edited or not record then return record end
  local line, words = string.match(record, '^(%d+ [^ \n]+([^\n]*))\n')
  words = string.gsub(string.gsub(words or '?', ' [trdspn]=%-?%d+', ''), ' [fghlmoukx]=[^ ]+', '')
  if words ~= '' then return digits(clock()) .. '000000 *\n' .. payload end
  local shape = shape_of(record)
  if limited_now then shape = reshape(shape, limit_words, share) end
  if new_key then shape = uniques.with_key(shape, new_key) end
  return (string.match(line, '^(.-) [afgklmnopux]=') or line) .. (shape == '' and '' or ' ' .. shape) .. '\n' .. payload
end

-- A job that ended does not expire when it runs again.
local function without_deadline(record)
  local line, rest = string.match(record or '', '^([^\n]*)(\n.*)$')
  return line and string.gsub(line, ' x=%S+', '') .. rest or record
end

-- Take the job's unique key. A new one lasts as the earlier one did, which is free then. Returns the job that has the
-- key, if it is another one. A job that blocks a lane and had its key only until its start, or for a time, runs without
-- a key that is not
-- new: the job that has it may be behind it in the lane.
local function take_key(shape, earlier, has_ended)
  local mode, unique = uniques.key_of(shape)
  if not mode then return nil end
  local _, before = uniques.key_of(earlier)
  local owner, lasts = uniques.rival(unique, clock()), uniques.lasts(before, id)
  if owner and owner ~= id then
    return (unique ~= before or call('HEXISTS', key('busy'), id) == 0) and owner or nil
  end
  if unique ~= before then uniques.free_key(earlier, id, true) end
  if has_ended and mode ~= 'w' then lasts = '0' end
  if lasts then uniques.own_key(unique, id, lasts) end
end

-- It comes before those behind it in its lane if the lane waits for it, or was parked because of it.
local function line_up(shape)
  local lane = shapes.word(shape, 'l')
  local parked = lane and string.match(call('HGET', key('parked'), lane) or '', '^%d+ (.*)$')
  shapes.place(id, shape, parked == id or call('HEXISTS', key('busy'), id) == 1)
end

-- The error for a job that cannot run again in this partition.
local function misplaced(shape)
  if not homes.is_parted or call('HEXISTS', key('busy'), id) == 1 then return nil end
  local lane, _, unique = shapes.word(shape, 'l'), uniques.key_of(shape)
  if lane and unique or shapes.word(shape, 'm') then
    return redis.error_reply('TNPARTS a job that needs two partitions')
  end
  local is_taken = lane and homes.has_lane(lane) or unique and uniques.rival(unique, clock())
  if homes.changes and homes.of(id, shape) ~= homes.partition and not is_taken then
    return redis.error_reply('TNMOVES the job belongs to another partition')
  end
end

if state == 'failed' or state == 'broken' or state == 'cancelled' then
  record = call('HGET', key('kept'), id)
  local new = without_deadline(edit(record))
  local shape = shape_of(new)
  local error = misplaced(shape)
  if error then return error end
  shapes.check(shape)
  if not record then return remember(session, number, '0') end
  local owner = take_key(shape, shape_of(record), true)
  if owner then return remember(session, number, ':' .. owner) end
  sending.send({ sending.word_of(id, shape, 'again') })
  call('HSET', key('jobs'), id, new)
  note_size(#record + #payload)
  note_limits(shape)
  lane_ends.unblock(id)
  line_up(shape)
  call('HDEL', key('ended'), id)
  call('HDEL', key('kept'), id)
  call('ZREM', key(state), id)
elseif (state == 'scheduled' and detail ~= '') or state == 'unroutable' then
  local found, new = place_of(id, state, detail, record), edit(record)
  local shape = shape_of(new)
  -- The key or the id of a job that has not ended is here.
  local error = shapes.word(shape, 'l') and misplaced(shape)
  if error then return error end
  shapes.check(shape)
  local owner = new_key and take_key(shape, shape_of(record), false)
  if owner then return remember(session, number, ':' .. owner) end
  if edited then
    call('HSET', key('jobs'), id, new)
    note_size(#payload)
    note_limits(shape)
  end
  line_up(shape)
  take_out(id, state, found)
else
  return remember(session, number, '0')
end
call('HDEL', key('tries'), id)
if homes.changes then call('HSET', key('mover'), 'dirty', '1') end -- what `move` has looked at may have changed
return remember(session, number, '1' .. (sending.has_sent() and '~' or ''))
