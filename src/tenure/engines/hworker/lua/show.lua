-- show: all that is known of a job that is held or kept.
-- KEYS[1] prefix
-- ARGV id
-- Returns: a row as in lib/view, or nothing
-- Invariant: changes nothing. Jobs that wait are found by `find`, those of other clients by `page`.
--@include view
return row_of(ARGV[1]) or false
