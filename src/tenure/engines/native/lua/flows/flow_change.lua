-- flow_change: seal, stop or forget a group, continue a chain, or note members that never came to be.
-- KEYS[1] prefix
-- ARGV id action detail (member word)...
-- action: seal; stop (detail: the reason); give_up (the same, by the producer, which enqueues no more members); forget;
-- continue (a chain that was cancelled while a member of it completed); note (member, word: numbers of members, and
-- what has become of them, as lib flow has it); report (to the group that it is part of, how this one has ended).
-- Returns: 1, or 0 if there is no such group (continue: or it is no such chain); and `~` if jobs are on their way.
-- Invariant: a sealed group of which all members have ended has ended. Sending it again is harmless by nature.
--@include begin flow
local id, action, detail = ARGV[1], ARGV[2], ARGV[3]
allow_when_full()
local group = flow.of(id)
if not group then return '0' end
if action == 'seal' and group.state == 'open' then
  group.sealed = '1'
  call('HSET', flow.key(id), 'sealed', '1')
  call('ZREM', key('flows_unsealed'), id)
  flow.end_if_over(id, group)
elseif (action == 'stop' or action == 'give_up') and group.state == 'open' then
  if group.sealed ~= '1' then call('HSET', flow.key(id), 'broken_off', '1') end
  if action == 'give_up' then call('HSET', flow.key(id), 'grown', '0') end
  flow.stop(id, detail)
elseif action == 'continue' then
  if not flow.continue(id, group) then return '0' end
elseif action == 'note' then
  local words = {}
  for i = 4, #ARGV, 2 do words[#words + 1] = { '', id .. '.' .. ARGV[i], ARGV[i + 1] } end
  flow.note(words)
elseif action == 'report' and group.state ~= 'open' then
  flow.report_end(id, group)
elseif action == 'forget' then
  flow.forget(id, group)
end
return '1' .. (sending.has_sent() and '~' or '')
