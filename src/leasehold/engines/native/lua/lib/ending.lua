-- lib ending: what every end of a job needs.
--@include counted forget

local watching = nil
-- Publish the end of a job to the callers that wait for it.
local function publish_end(id, state)
  if watching == nil then watching = call('EXISTS', key('watched')) == 1 end
  if watching and call('HDEL', key('watched'), id) == 1 then
    call('PUBLISH', key('ended:' .. id), state)
  end
end

-- Keep at most `max` records of a state. Records that expire first go first; those of jobs that block a lane do not count.
local function trim(state, max)
  if call('ZCARD', key(state)) > max then
    local over = math.min(call('ZCOUNT', key(state), '-inf', '(@NEVER_MS@') - max, 1000)
    if over > 0 then
      forget(state, call('ZRANGEBYSCORE', key(state), '-inf', '(@NEVER_MS@', 'LIMIT', 0, over), true)
    end
  end
end

-- The first line of an end. The second is the record's own first line (completed jobs only), the rest is the body.
-- `times`: when the job ended, and when its record expires.
local function end_line(state, times, failures, crashes, token, worker, claimed)
  local tries = failures + crashes == 0 and ' 0 0 ' or ' ' .. failures .. ' ' .. crashes .. ' '
  return state .. ' ' .. times .. tries .. token .. ' ' .. worker .. ' ' .. claimed
end
