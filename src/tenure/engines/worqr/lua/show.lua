-- show: all that is known of one process or record.
-- KEYS[1] prefix
-- ARGV id
-- `id`: a process id, or the sha1 of bytes: then the latest process or record of these bytes.
-- Returns: a row as in lib/view, or nothing
-- Invariant: changes nothing. Tasks that wait are found by `find`.
--@include view
return row_of(pid_of(ARGV[1]) or ARGV[1]) or false
