-- show: one job.
-- KEYS[1] prefix
-- ARGV id
-- Returns: its row, or nothing
-- Invariant: changes nothing.
--@include begin jobs
local job = job_of(ARGV[1])
if not job or (ENDS[job.state] and job.expires <= clock()) then
  return false
end
return row_of(ARGV[1], job)
