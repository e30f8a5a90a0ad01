-- show: one job, wherever it is; with watch_ms above 0 its end and its progress will be published for that long.
-- KEYS[1] prefix
-- ARGV id watch_ms
-- Returns: {} or {state, record, tries, due, worker, claim, end, progress, cancelling, stop}, '' where it does not
-- apply. `stop`: see lib stopped.
-- Invariant: nothing of the job is changed; the note that a caller waits expires.
--@include begin find shown
local id, watch_ms = ARGV[1], tonumber(ARGV[2])
local state, detail, record, claim = find(id)
if not state then return {} end
if record and watch_ms > 0 then
  -- Without memory for the note the caller still learns of the end: it asks again now and then.
  redis.pcall('HSET', key('watched'), id, '1')
  redis.pcall('PEXPIRE', key('watched'), watch_ms)
end
return shown(id, state, detail, record, claim)
