-- running: find a process with these bytes.
-- KEYS[1] prefix
-- ARGV name
-- `name`: the sha1 of the bytes.
-- Returns: a row as in lib/view, or nothing
-- Invariant: changes nothing. Looks at MAX_GHOST_LOOK other processes at most.
--@include view
local name = ARGV[1]
local own = pid_of(name)
if own then return row_of(own) or false end
for _, pid in ipairs(call('SSCAN', working, 0, 'COUNT', @MAX_GHOST_LOOK@)[2]) do
  local data = call('LINDEX', process_key(pid), -1)
  if data and redis.sha1hex(data) == name then return row_of(pid) end
end
return false
