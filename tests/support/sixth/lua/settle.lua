-- settle: end leases of one worker.
-- KEYS[1] prefix
-- ARGV session number config worker (id token kind ms body)...
-- Returns: a string of one character a lease: 1 ended, 0 it was held no longer
-- Invariant: a group ends as a whole, or not at all.
--@include begin answers back
local session, number, worker = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
allow_when_full()
local again = recall(session, number)
if again then return again end
check_types()
local time, held, asked = clock(), {}, {}
for i = 5, #ARGV, 5 do
  local job = job_of(ARGV[i])
  if job and job.state == 'active' and job.token == ARGV[i + 1] and job.worker == worker then
    held[i] = job
    if job.group then
      asked[job.group] = (asked[job.group] or 0) + 1
    end
  end
end
if next(asked) then
  for _, id in ipairs(call('ZRANGE', key('held:' .. worker), 0, -1)) do
    local group = job_of(id).group
    if group and asked[group] then
      asked[group] = asked[group] - 1
    end
  end
end
local back, letters = {}, {}
local ends = { f = 'failed', b = 'broken', x = 'cancelled' }
for i = 5, #ARGV, 5 do
  local id, kind, ms, body, job = ARGV[i], ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 4], held[i]
  if job and (not job.group or asked[job.group] == 0) then
    letters[#letters + 1] = '1'
    local order = tonumber(call('ZSCORE', key('held:' .. worker), id))
    call('ZREM', key('held:' .. worker), id)
    if kind == 'c' then
      forget(id, job)
      count('completed')
    elseif kind == 'r' then
      job.failures, job.error = job.failures + 1, body
      count('retried')
      if ms > 0 then
        job.worker, job.token, job.group, job.due = nil, nil, nil, time + ms
        enter(id, job, 'scheduled', (time + ms) * 1000 + job.number % 1000)
      else
        make_ready(id, job)
      end
    elseif ends[kind] then
      job.failures = job.failures + (kind == 'f' and 1 or 0)
      finish(config, time, id, job, ends[kind], body)
    else
      back[#back + 1] = { id, order, worker }
    end
  else
    letters[#letters + 1] = '0'
  end
end
release_claims(config, time, { worker }, back)
return remember(session, number, table.concat(letters))
