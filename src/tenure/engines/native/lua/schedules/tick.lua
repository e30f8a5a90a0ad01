-- tick: move schedules on to their next ticks, and enqueue the jobs of these ones.
-- KEYS[1] prefix
-- ARGV session number config body signal queue
--   (name digest expected run_fire next next_fire missed overlap id record rule)...
-- config, body, signal, queue: for the end of a cancelled job: see lib cancelone. A call has a schedule once.
-- digest, expected: the definition and the planned time that the caller saw; expected `-`: enqueue now, without moving
-- on. run_fire: when the tick to run is due; next, next_fire: the tick that follows, and when it is due; 0: none.
-- missed: ticks left out. overlap: skip, allow or cancel. id: of the new job; empty: none.
-- Returns: a letter for each tick: s stale, e early, or for another call, m moved, k skipped, f the queue is full, 1
-- enqueued, j another job has its id or its unique key; then, if f is among them, how many jobs the queue has, and how
-- many it may have.
-- Invariant: a tick has at most one job: the planned time moves on in the step that enqueues it. A tick without room in
-- the queue changes nothing.
--@include begin types answers addjobs ends cancelone schedules
local session, number = ARGV[1], ARGV[2]
local again = recall(session, number)
if again then return again end
schedules.check_types()
check_types()
local time = clock()
local FIRST, EACH = 7, 11
local names, previous = {}, {}
for i = FIRST, #ARGV, EACH do names[#names + 1] = ARGV[i] end
local digests, states = schedules.read(names)
for n, name in ipairs(names) do previous[n] = states[name].last end
-- These records may be larger than the records of the new jobs.
local some = readable(previous, @READ_BYTES@)
local records = call('HMGET', key('jobs'), unpack(previous, 1, some))
local most = most_jobs()
local have = most > 0 and call('HLEN', key('jobs')) or 0

-- All that may fail comes before the first write.
local letters, changed, cancelled, jobs, numbers = {}, {}, {}, {}, {}
-- What the jobs of this call take: see `adds`; and their unique keys, which a later tick joins.
local taken, owners = {}, {}

-- Whether the previous job holds a tick back. No worker may ever have the task of a parked job after a rename: the job
-- does not hold back the ticks of another task.
local function is_held_back(n, record)
  local task = task_of(records[n])
  return task == task_of('0 ' .. record) or not call('ZSCORE', key('unroutable:' .. task), previous[n])
end

-- Note a job that is to be enqueued, and in the state that the schedule has run.
local function run(n, state, is_tick, overlap, id, record, rule)
  local job = jobs_to_add({ { id, record, '', rule } })[1]
  if most > 0 and adds(job, time, taken) then have = have + 1 end
  local mode, unique = uniques.key_of(job.shape)
  local rival = mode and overlap ~= 'cancel' and (owners[unique] or uniques.rival(unique, time))
  if mode and not rival then owners[unique] = id end
  local last = rival or id
  schedules.count(state, 'runs', 1)
  -- A user's id may have spaces, which the state has no place for: then the schedule does not know its last job.
  schedules.note_run(state, string.find(last, '%s') and '-' or last, time)
  if is_tick then state.last_planned = string.match(record, '^[^\n]* s=(%d+)') or '0' end
  if overlap == 'cancel' and records[n] then cancelled[#cancelled + 1] = previous[n] end
  jobs[#jobs + 1], numbers[#numbers + 1] = job, n
end

-- Decide about one tick. Returns the letter of the answer; nil: `add_jobs` answers.
local function decide(n, name, digest, expected, run_fire, planned, fire, missed, overlap, id, record, rule)
  local state, is_tick = states[name], expected ~= '-'
  if not digests[name] or is_tick and (digests[name] ~= digest or state.planned ~= expected or state.paused ~= '0') then
    return 's'
  elseif n > some or is_tick and (tonumber(run_fire) > time or tonumber(state.fire) > time) then
    return 'e'
  end
  local is_skipped = id ~= '' and overlap == 'skip' and records[n] and is_held_back(n, record)
  if id ~= '' and not is_skipped then
    if most > 0 and have >= most then return 'f' end
    run(n, state, is_tick, overlap, id, record, rule)
  end
  if is_tick then
    schedules.count(state, 'missed', tonumber(missed))
    if is_skipped then schedules.count(state, 'skipped', 1) end
    state.planned, state.fire = planned, fire
  end
  changed[name] = state
  return id == '' and 'm' or is_skipped and 'k' or nil
end

for n = 1, #names do
  local from = FIRST + EACH * (n - 1)
  letters[n] = decide(n, unpack(ARGV, from, from + EACH - 1)) or ''
end
-- A cancel may fail at another program's data. Then no schedule has moved on.
for _, id in ipairs(cancelled) do cancel_one(cjson.decode(ARGV[3]), id, ARGV[4], ARGV[5], ARGV[6]) end
schedules.write(changed)
if #jobs > 0 then
  -- There is room. Schedules are in the first partition, by every map of the partitions.
  local answer = add_jobs(jobs, 0)
  for k, n in ipairs(numbers) do letters[n] = string.sub(answer, k, k) == '1' and '1' or 'j' end
end
local answer = table.concat(letters)
return remember(session, number, string.find(answer, 'f', 1, true) and answer .. ' ' .. have .. ' ' .. most or answer)
