-- lib claimed: what a claim answers that is sent again.

-- The same claims, as far as they are still held: what was lost on the way stays ours. `still(id, token)` answers one as
-- a claim does, or nil. An error (the call was given up) is passed on.
local function claimed_before(answer, still)
  if type(answer) == 'table' then return answer end
  local jobs, claimed = {}, cmsgpack.unpack(answer)
  for i = 1, #claimed, 2 do jobs[#jobs + 1] = still(claimed[i], claimed[i + 1]) end
  return { 0, jobs, {} }
end
