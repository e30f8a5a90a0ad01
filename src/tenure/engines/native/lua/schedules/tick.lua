-- tick: move a schedule on to its next tick, and enqueue the job of this one.
-- KEYS[1] prefix
-- ARGV session number config name digest expected run_fire next next_fire missed overlap body signal queue id record
-- rule
-- digest, expected: the definition and the planned time that the caller saw; expected `-`: enqueue now, without moving
-- on.
-- run_fire: when the tick to run is due; next, next_fire: the tick that follows, and when it is due; 0: none. missed:
-- ticks left out. overlap: skip, allow or cancel; body: the end of a cancelled job. id: of the new job; empty: none.
-- Returns: stale, early, moved or skipped; else the answer of `enqueue`.
-- Invariant: a tick has at most one job: the planned time moves on in the step that enqueues it. Without room in the
-- queue nothing is changed.
--@include begin types answers addjobs ends cancelone schedules
local session, number, name, expected, overlap = ARGV[1], ARGV[2], ARGV[4], ARGV[6], ARGV[11]
local run_fire, id, record, rule = tonumber(ARGV[7]), ARGV[15], ARGV[16], ARGV[17]
local again = recall(session, number)
if again then return again end
schedules.check_types()
check_types()
local time = clock()
local digest, state = schedules.owner_of(name), schedules.state_of(name)
local triggers = expected == '-'
if not digest or not triggers and (digest ~= ARGV[5] or state.planned ~= expected or state.paused ~= '0') then
  return remember(session, number, 'stale')
elseif not triggers and (run_fire > time or tonumber(state.fire) > time) then
  return remember(session, number, 'early')
end

local before = state.last ~= '-' and call('HGET', key('jobs'), state.last)
local task = task_of(before)
-- No worker may ever have the task of a parked job after a rename: the job does not hold back the ticks of another
-- task.
local is_left = before and task ~= task_of('0 ' .. record) and call('ZSCORE', key('unroutable:' .. task), state.last)
local is_skipped = overlap == 'skip' and before and not is_left
local runs = id ~= '' and not is_skipped
local previous = state.last
if runs then
  -- All that may fail comes before the first write.
  local most = most_jobs()
  local have = most > 0 and call('HLEN', key('jobs')) or 0
  if most > 0 and have >= most then
    return redis.error_reply('TNFULL ' .. have .. ' ' .. most .. ' 1')
  end
  local shape = shape_of('0 ' .. record)
  shapes.check(shape)
  local mode, unique = uniques.key_of(shape)
  schedules.count(state, 'runs', 1)
  local rival = mode and overlap ~= 'cancel' and uniques.rival(unique, time)
  local last = rival or id
  -- A user's id may have spaces, which the state has no place for: then the schedule does not know its last job.
  schedules.note_run(state, string.find(last, '%s') and '-' or last, time)
  state.last_planned = triggers and state.last_planned or string.match(record, '^[^\n]* s=(%d+)') or '0'
end
if not triggers then
  schedules.count(state, 'missed', tonumber(ARGV[10]))
  if id ~= '' and not runs then schedules.count(state, 'skipped', 1) end
  state.planned, state.fire = ARGV[8], ARGV[9]
end
schedules.write(name, state)
if not runs then return remember(session, number, id == '' and 'moved' or 'skipped') end
if overlap == 'cancel' and before then
  cancel_one(cjson.decode(ARGV[3]), previous, ARGV[12], ARGV[13], ARGV[14])
end
-- There is room. Schedules are in the first partition, by every map of the partitions.
local answer = add_jobs(jobs_to_add({ { id, record, '', rule } }), 0)
return remember(session, number, answer)
