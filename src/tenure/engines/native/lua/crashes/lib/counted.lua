-- lib counted: how often a job has failed and crashed.
-- Defines: counted.

-- Failures, crashes, and doubtful crashes, which another job of the worker may have caused, from the text in `tries`.
local function counted(text)
  if not text then return 0, 0, 0 end
  local failures, crashes, known = string.match(text, '^(%d+) (%d+) ?(%d*)')
  crashes = tonumber(crashes) or 0
  return tonumber(failures) or 0, crashes, crashes - (tonumber(known) or 0)
end
