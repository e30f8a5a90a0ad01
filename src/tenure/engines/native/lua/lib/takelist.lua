-- lib takelist: take jobs from the front of a list. A part of `claim`.
-- Needs: ARGV, counted, cut_to_bytes, dropped, is_skipped, jobs, limit, number_in, take, taken, turned. Sets: has_tries, isolates,
-- looked, read. Defines: ask, is_spent, refused, take_list. Redis: reads and writes.

-- The error of a list in whose place is another program's data. The claim ends with the jobs that it has, or with the error.
local refused = nil

-- Whether this claim leaves jobs to the next one, which the worker sends at once.
local function is_spent() return refused or read >= @CLAIM_BYTES@ or turned >= @TURNS_MOST@ end

-- Read or pop entries of a list; nil for none.
local function ask(command, list, ...)
  local found = redis.pcall(command, key(list), ...)
  if type(found) == 'table' and found.err then refused, found = found, nil end
  return found or nil
end

-- The next entries of a list, up to `wanted`, as many as may be read with the bytes that are left.
local function next_of(list, wanted)
  wanted = math.min(wanted, math.max(1, math.floor((@CLAIM_BYTES@ - read) / @LARGE_BYTES@)))
  local found = ask('LRANGE', list, '0', wanted - 1) or {}
  return cut_to_bytes and cut_to_bytes(found) or found
end

-- Take a job, unless it is an entry without one, or a suspect, which goes to `isolated`.
local function take_entry_of(list, id, record, tries)
  local failures, crashes, doubtful = counted(tries)
  read = read + (tries and #tries or 0)
  if is_skipped and is_skipped(list, id) then return end
  if not record or taken[id] then
    dropped[#dropped + 1] = id
  elseif doubtful > 0 and doubtful >= number_in(ARGV[3], 'isolate') then
    call('RPUSH', key('isolated'), id)
    isolates = true
  else
    take(id, record, failures, crashes)
  end
end

-- Take up to `count` jobs from the front of a list. Entries without a job must not hide the jobs behind them, so the search
-- continues up to the limit of a call.
local function take_list(list, count)
  local goal = #jobs + count
  while #jobs < goal and looked < limit + @MAX_LOOK@ and read < @CLAIM_BYTES@ do
    local ids = next_of(list, goal - #jobs)
    if #ids == 0 then return end
    looked = looked + #ids
    if has_tries == nil then has_tries = call('EXISTS', key('tries')) == 1 end
    local records = call('HMGET', key('jobs'), unpack(ids))
    local tries = has_tries and call('HMGET', key('tries'), unpack(ids)) or {}
    call('LTRIM', key(list), #ids, '-1')
    for n, id in ipairs(ids) do take_entry_of(list, id, records[n], tries[n]) end
  end
end
