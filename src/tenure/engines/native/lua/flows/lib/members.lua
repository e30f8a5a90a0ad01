-- lib members: the words of members that end here. The group of a member is noted in this step if it is in this place,
-- and nothing is on the way to it: an earlier word of the member must be noted before this one.
-- Defines: members. Redis: reads.
--@include flow
local members = { place = string.match(prefix, ':([^:/}]*)}$') }

function members.check()
  if members.place then call('LLEN', key('out:' .. members.place)) end
  call('SCARD', key('outs'))
end

-- Return whether word is on its way, or jobs are.
function members.note(words)
  local own, others = {}, {}
  local is_free = members.place and call('EXISTS', key('out:' .. members.place)) == 0
  for _, word in ipairs(words) do table.insert(is_free and word[1] == members.place and own or others, word) end
  flow.note(own)
  sending.send(others)
  return sending.has_sent()
end
