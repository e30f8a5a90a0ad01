-- lib takelist: take jobs from the front of a list. A part of `claim`.

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

-- Pop up to `wanted` entries of a list, as many as may be read with the bytes that are left.
local function pop_some(list, wanted)
  wanted = math.min(wanted, math.max(1, math.floor((@CLAIM_BYTES@ - read) / @LARGE_BYTES@)))
  if has_large() then
    wanted = readable(ask('LRANGE', list, 0, wanted - 1) or {}, @CLAIM_BYTES@ - read)
  end
  return wanted > 0 and ask('LPOP', list, wanted) or {}
end

-- Take up to `count` jobs from the front of a list. Entries without a job must not hide the jobs behind them, so the search
-- continues up to the limit of a call.
local function take_list(list, count)
  local goal = #jobs + count
  while #jobs < goal and looked < limit + @MAX_LOOK@ and read < @CLAIM_BYTES@ do
    local popped = pop_some(list, goal - #jobs)
    if #popped == 0 then return end
    looked = looked + #popped
    local records = call('HMGET', key('jobs'), unpack(popped))
    local tries = has_tries and call('HMGET', key('tries'), unpack(popped)) or {}
    for i, id in ipairs(popped) do
      local failures, crashes, doubtful = counted(tries[i])
      read = read + (tries[i] and #tries[i] or 0)
      if not is_tombstone(tombstone_name(list, id)) then
        if not records[i] or taken[id] then
          dropped[#dropped + 1] = id
        elseif doubtful >= config.isolate then
          call('RPUSH', key('isolated'), id)
          uses_features = true
        else
          take(id, records[i], failures, crashes)
        end
      end
    end
  end
end
