-- lib orphaned: leases that a worker holds and does not know.

-- Compare the leases that a worker asks about, `(id token)...` from ARGV[3] on, with those that it holds: {id, token,
-- claimed}.... Answers the positions of the lost ones, up to 100 held ones that it does not ask about, and the ids of
-- the others: id -> true.
local function compare(time, held)
  local tokens, lost, orphaned, known = {}, {}, {}, {}
  for _, lease in ipairs(held) do tokens[lease[1]] = lease[2] end
  for i = 3, #ARGV, 2 do
    if tokens[ARGV[i]] == ARGV[i + 1] then
      known[ARGV[i]] = true
    else
      lost[#lost + 1] = (i - 3) / 2
    end
  end
  -- The reply of a claim younger than two heartbeats may still be on its way to the worker. A claim of a time to come
  -- is from before the clock was set back.
  for _, lease in ipairs(held) do
    local age = time - tonumber(lease[3])
    if not known[lease[1]] and (age >= 2 * @BEAT_MS@ or age < 0) and #orphaned < 100 then
      orphaned[#orphaned + 1] = lease
    end
  end
  return lost, orphaned, known
end
