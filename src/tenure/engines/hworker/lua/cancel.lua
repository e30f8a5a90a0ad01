-- cancel: end a job that waits, or is kept for later, in `cancelled`.
-- KEYS[1] prefix
-- ARGV session number config id body bytes
-- `bytes`: of a job that waits, or ''.
-- Returns: 1, or 0 when there is no such job, or it runs
-- Invariant: a cancelled job is in no place of the originals.
--@include view answers transition
local session, number, id, body, data = ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local time = clock()
local job, answer = records.of(id), '0'
if job and (job.s == 'unroutable' or job.s == 'scheduled' and is_still_held(id, job)) then
  remove(id, job)
  finish(config, time, id, job, 'cancelled', body)
  answer = '1'
elseif not job and data ~= '' and name_of(data) == id and call('LREM', waiting, -1, data) == 1 then
  local known = counts.of(data)
  counts.drop(data)
  finish(config, time, id, { d = data, w = '', n = 0, t = time, k = '', f = known.f, c = known.c, u = known.u },
    'cancelled', body)
  answer = '1'
end
return remember(session, number, answer)
