-- show: one job, wherever it is; with watch_ms above 0 its end and its progress will be published for that long.
-- KEYS[1] prefix
-- ARGV id watch_ms
-- Returns: {} or {state, record, tries, due, worker, claim, end, progress, cancelling, stop}, '' where it does not apply. `stop`: see lib stopped.
-- Invariant: nothing of the job is changed; the note that a caller waits expires.
--@include begin find stopped
local id, watch_ms = ARGV[1], tonumber(ARGV[2])
local state, detail, record, claim = find(id)
if not state then return {} end
if record and watch_ms > 0 then
  -- Without memory for the note the caller still learns of the end: it asks again now and then.
  redis.pcall('HSET', key('watched'), id, '1')
  redis.pcall('PEXPIRE', key('watched'), watch_ms)
end
local tries = call('HGET', key('tries'), id) or ''
if state == 'scheduled' then
  return { state, record, tries, detail, '', '', '', '', '' }
elseif state == 'active' then
  local progress, asked = call('HGET', key('progress'), id) or '', call('HGET', key('cancelling'), id) or ''
  return { state, record, tries, '', detail, claim, '', progress, asked }
elseif record then
  local stop = state == 'ready' and stop_of(record) or ''
  return { state, record, tries, '', '', '', '', '', '', stop }
end
return { state, call('HGET', key('kept'), id) or '', '', '', '', '', detail, '', '' }
