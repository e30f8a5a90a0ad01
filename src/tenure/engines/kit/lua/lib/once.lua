-- lib once: a call that is sent again ends here, with the answer of the first time. Stands in the middle of an operation,
-- where `session` and `number` are bound and nothing has been changed yet.
--@include answers
local again = recall(session, number)
if again then return again end
