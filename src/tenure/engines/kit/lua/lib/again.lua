-- lib again: `again` is the remembered answer of this call, or nil for a new call. Stands where `session` and `number` are bound.
--@include answers
local again = recall(session, number)
