-- lib names: the keys that originals know, and Tenure's keys. The prefix is `hworker-tenure-<name of the pool>`.
--@include begin
local pool = string.sub(prefix, #'hworker-tenure-' + 1)
local waiting, progress = 'hworker-jobs-' .. pool, 'hworker-progress-' .. pool
local failed_list, broken_hash = 'hworker-failed-' .. pool, 'hworker-broken-' .. pool
-- A wait moves a job here, just before the claim takes it: see decision 0021.
local taken = prefix .. ':taken'
