-- lib endline: the first line of an end.
-- Defines: end_line.

-- The second line is the record's own first line (completed jobs only), the rest is the body.
-- `times`: when the job ended, and when its record expires.
local function end_line(state, times, failures, crashes, token, worker, claimed)
  local tries = failures + crashes == 0 and ' 0 0 ' or ' ' .. failures .. ' ' .. crashes .. ' '
  return state .. ' ' .. times .. tries .. token .. ' ' .. worker .. ' ' .. claimed
end
