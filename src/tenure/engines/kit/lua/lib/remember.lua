-- lib remember: a call that is sent again gets the answer of the first time.
--@include answers
local function recall(session, number)
--@part again
  return again
end
