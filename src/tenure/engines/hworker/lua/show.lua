-- show: all that is known of a job that is held or kept.
-- KEYS[1] prefix
-- ARGV id
-- Returns: a row as in lib/view, or nothing
-- Invariant: changes nothing. `find` finds jobs that wait, `page` finds jobs of other clients.
--@include view
return row_of(ARGV[1]) or false
