-- move: take items out of a queue and add them as jobs to one of another protocol, both in this one step.
-- KEYS[1] prefix
-- ARGV session number to room (id hash record due own)...
-- Returns: a string of one character an item: 1 moved, 0 the other queue has a job of this id, - it does not wait here any
-- more; or the error of the other queue, and then nothing was changed.
-- Invariant: an item is in one of the two queues, never in both or in none. One whose id is taken goes to the left end, out
-- of the way of the others. `hash`: of the data that was seen; what has other data is another item.
-- Before this text stands `enqueue(KEYS, ARGV)`, which is the script of the other protocol: see migrate.py.
--@include begin types remember gone
local session, number, to, room = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
--@include once
check_types()

-- It is near the right end, or somebody took it.
local function waits(id, hash)
  local data = call('MGET', key('item:' .. id))[1]
  return data and redis.sha1hex(data) == hash
    and not is_held(id, lease_of(id), claim_of(call('HGET', key('leased'), id)), data)
    and call('LPOS', key('queue'), id, 'RANK', -1, 'MAXLEN', 4 * @MAX_BATCH@)
end

local letters, there, seen, jobs = {}, {}, {}, { session, number, room }
for i = 5, #ARGV, 5 do
  local id = ARGV[i]
  letters[#letters + 1] = '-'
  if not seen[id] and waits(id, ARGV[i + 1]) then
    seen[id] = true
    there[#there + 1] = { id, #letters }
    jobs[#jobs + 1] = id
    for n = i + 2, i + 4 do
      jobs[#jobs + 1] = ARGV[n]
    end
  end
end
jobs[3] = math.max(0, room - (#letters - #there))
local answer = #there > 0 and enqueue({ to }, jobs) or ''
if type(answer) == 'table' then
  return answer
end
local off, moved = {}, {}
for n, one in ipairs(there) do
  off[n] = one[1]
end
take_out(key('queue'), off, call('LLEN', key('queue')) <= @COPIES_FEW@)
for n, one in ipairs(there) do
  local id, letter = one[1], string.sub(answer, n, n)
  letters[one[2]] = letter
  if letter == '1' then
    moved[#moved + 1] = id
    remove_item(id)
  else
    call('LPUSH', key('queue'), id)
  end
end
-- Who held one once, and is late, must not find a copy of it.
leave_processing(moved)
return remember(session, number, table.concat(letters))
