-- lib once: a call that is sent again ends here, with the answer of the first time. Stands in the middle of an operation,
-- where `session` and `number` are bound and nothing has been changed yet.
local answer = recall(session, number)
if answer then return answer end
