-- lib transition: the beginning of an operation that changes jobs.
-- Needs: check_types. Defines: transition. Redis: reads and writes.
--@include answers full

-- Let the operation run at the memory limit, too, and check the types of the keys before the first write. Returns the
-- answer of the first time for a call that is sent again: then it must end.
local function transition(session, number)
  allow_when_full()
  local again = recall(session, number)
  if not again then check_types() end
  return again
end
