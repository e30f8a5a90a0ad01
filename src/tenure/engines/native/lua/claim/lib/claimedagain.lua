-- lib claimedagain: the answer of a claim that is sent again: its jobs, as far as they are still held: after a lost
-- reply the jobs stay with the worker. Their tokens follow each other, so the first and the last one are remembered.
-- Defines: claimed_again. Redis: reads.
--@include counted crash
local function claimed_again(again, held_key)
  if type(again) == 'table' then return again end
  local first, last = string.match(again, '^(%d+) (%d+)$')
  local held, found, window = call('HGETALL', held_key), {}, 0
  for i = 1, first and #held or 0, 2 do
    local text, as = string.match(held[i + 1], '^(%d+) %d+ (%w*)')
    local token = tonumber(text or 0)
    if token >= tonumber(first) and token <= tonumber(last) then
      local id = held[i]
      local failures, crashes = counted(call('HGET', key('tries'), id))
      found[#found + 1] = { id, call('HGET', key('jobs'), id) or '', text, failures, crashes }
      window = claim_window(as) or window
    end
  end
  table.sort(found, function(a, b) return tonumber(a[3]) < tonumber(b[3]) end)
  return { 0, found, {}, window }
end
