-- lib claimed: the answer of a claim that is sent again.

-- The same jobs, as far as they are still held: those of a lost reply stay with the worker. `still(id, token)` answers
-- one as a claim does, or nil; and for how many ms nothing is claimed beside it, or nil. An error (the call was given
-- up) is passed on.
local function claimed_before(answer, still)
  if type(answer) == 'table' then return answer end
  local jobs, how, claimed = {}, 0, cmsgpack.unpack(answer)
  for i = 1, #claimed, 2 do
    local job, window = still(claimed[i], claimed[i + 1])
    jobs[#jobs + 1], how = job, window or how
  end
  return { 0, jobs, {}, how }
end
