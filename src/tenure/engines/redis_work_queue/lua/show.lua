-- show: all that is known of one item.
-- KEYS[1] prefix
-- ARGV id
-- Returns: {state, data, attempts, due ms, value of the lease, our record of it, end, '' or the worker that
-- takes nothing else for now, see lib/company}, or nothing
-- Invariant: changes nothing.
--@include begin leases claims view
return view_of(ARGV[1])
