-- show: one job.
-- KEYS[1] prefix
-- ARGV id
-- Returns: its row, or nothing
-- Invariant: changes nothing.
--@include begin back view
local id = ARGV[1]
local kept = kept_of(id)
if kept then return tonumber(kept.expires) > clock() and kept_row(id, kept) or false end
return view_of(id) or false
