-- discard: remove a job that is not active, with all its records.
-- KEYS[1] prefix
-- ARGV session number config id
-- Returns: 1, or 0 when there is no such job, or it is active
-- Invariant: nothing of it is left, nor of its lane if it was the last.
--@include begin answers back transition
local session, number, id = ARGV[1], ARGV[2], ARGV[4]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local kept = kept_of(id)
if kept then
  forget_kept(id, kept)
  return remember(session, number, '1')
end
local job = job_of(id)
local lane, where = nil, nil
if job then lane, where = find_job(id, job) end
if where ~= 'waits' then return remember(session, number, '0') end
call('LREM', queue_key(lane), -1, id)
call('DEL', job_key(id))
if not batch_of(lane) then place(config, clock(), lane) end
return remember(session, number, '1')
