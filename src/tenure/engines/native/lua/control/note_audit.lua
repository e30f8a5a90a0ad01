-- note_audit: add an entry to the audit, and remove the oldest ones.
-- KEYS[1] prefix of the keys that belong to no queue
-- ARGV session number entry
-- Returns: 1
-- Invariant: the list has at most AUDIT_MAX entries, the newest first.
--@include begin answers
local session, number, entry = ARGV[1], ARGV[2], ARGV[3]
allow_when_full()
local again = recall(session, number)
if again then return again end
call('LPUSH', key('audit'), entry)
call('LTRIM', key('audit'), 0, @AUDIT_MAX@ - 1)
call('PEXPIRE', key('audit'), @AUDIT_TTL_MS@)
return remember(session, number, '1')
