-- tick: move schedules on to their next ticks, and enqueue the jobs of these ones.
-- KEYS[1] prefix
-- ARGV session number config body signal queue
--   (name digest expected run_fire next next_fire missed overlap id record rule)...
-- config, body, signal, queue: for the end of a cancelled job: see lib cancelone. digest, expected: the definition and
-- the planned time that the caller saw; expected -1: enqueue now, without moving on.
-- run_fire: when the tick to run is due; next, next_fire: the tick that follows, and when it is due; 0: none. missed:
-- ticks left out. overlap: skip, allow or cancel. id: of the new job; empty: none.
-- Returns: a string of one character for each tick: s stale, e early, m moved, k skipped, f the queue is full, r
-- another program's data is in the place of the job's list (an error, if it is the only tick), 1 enqueued, j another
-- job has its id or its unique key; and how many jobs a full queue has and may have.
-- Invariant: a tick has at most one job: the planned time moves on in the step that enqueues it. A tick that is full or
-- refused changes nothing.
--@include begin types answers addjobs ends cancelone schedules
local session, number = ARGV[1], ARGV[2]
local again = recall(session, number)
if again then return again end
schedules.check_types()
check_types()
local time = clock()
local FIRST, EACH = 7, 11
local names, lasts = {}, {}
for i = FIRST, #ARGV, EACH do names[#names + 1] = ARGV[i] end
local digests, states = schedules.read(names)
for n, name in ipairs(names) do lasts[n] = states[name].last end
local records = call('HMGET', key('jobs'), unpack(lasts))

-- All that may fail comes before the first write.
local most = most_jobs()
local have = most > 0 and call('HLEN', key('jobs')) or 0
local refused, is_full = nil, false
local changed, cancelled, added, numbers = {}, {}, {}, {}
-- The jobs that this call gives unique keys: a later tick joins them.
local owners = {}

-- Whether the previous job holds a tick back. No worker may ever have the task of a parked job after a rename: the job
-- does not hold back the ticks of another task.
local function is_held_back(previous, before, record)
  local task = task_of(before)
  return task == task_of('0 ' .. record) or not call('ZSCORE', key('unroutable:' .. task), previous)
end

-- Let the job of a tick be enqueued. Returns why it cannot be.
local function enqueue(n, state, triggers, overlap, id, record, rule)
  if most > 0 and have >= most then
    is_full = true
    return 'f'
  end
  local shape = #rule > 1 and shape_of('0 ' .. record) or ''
  refused = shape ~= '' and shapes.refusal(shape) or refused
  if shape ~= '' and shapes.refusal(shape) then return 'r' end
  local mode, unique = uniques.key_of(shape)
  local rival = mode and overlap ~= 'cancel' and (owners[unique] or uniques.rival(unique, time))
  if mode and not rival then owners[unique] = id end
  if not rival then have = have + 1 end
  schedules.count(state, 'runs', 1)
  local last = rival or id
  -- A user's id may have spaces, which the state has no place for: then the schedule does not know its last job.
  schedules.note_run(state, string.find(last, '%s') and '-' or last, time)
  state.last_planned = triggers and state.last_planned or string.match(record, '^[^\n]* s=(%d+)') or '0'
  added[#added + 1], numbers[#numbers + 1] = { id, record, '', rule }, n
end

-- Decide about the nth tick. Returns the letter of the answer; nil: its job is to be added.
local function decide(n)
  local name, digest, expected, run_fire, next_planned, next_fire, missed, overlap, id, record, rule =
    unpack(ARGV, FIRST + EACH * (n - 1), FIRST + EACH * n - 1)
  local state, triggers = states[name], expected == '-1'
  if not digests[name] or not triggers and (digests[name] ~= digest or state.planned ~= expected
    or state.paused ~= '0') then
    return 's'
  elseif not triggers and (tonumber(run_fire) > time or tonumber(state.fire) > time) then
    return 'e'
  end
  local previous, before = state.last, state.last ~= '-' and records[n]
  local is_skipped = overlap == 'skip' and id ~= '' and before and is_held_back(previous, before, record)
  local letter = id == '' and 'm' or is_skipped and 'k'
    or enqueue(n, state, triggers, overlap, id, record, rule)
  if letter == 'f' or letter == 'r' then return letter end
  if not letter and overlap == 'cancel' and before then cancelled[#cancelled + 1] = previous end
  if not triggers then
    schedules.count(state, 'missed', tonumber(missed))
    if is_skipped then schedules.count(state, 'skipped', 1) end
    state.planned, state.fire = next_planned, next_fire
  end
  changed[name] = state
  return letter
end

local letters = {}
for n in ipairs(names) do letters[n] = decide(n) or '' end
if refused and #names == 1 then return refused end
schedules.write(changed)
for _, id in ipairs(cancelled) do cancel_one(cjson.decode(ARGV[3]), id, ARGV[4], ARGV[5], ARGV[6]) end
if #added > 0 then
  -- There is room. Schedules are in the first partition, by every map of the partitions.
  local answer = add_jobs(jobs_to_add(added), 0)
  for k, n in ipairs(numbers) do letters[n] = string.sub(answer, k, k) == '1' and '1' or 'j' end
end
return remember(session, number, table.concat(letters) .. (is_full and ' ' .. have .. ' ' .. most or ''))
