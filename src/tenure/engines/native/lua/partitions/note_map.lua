-- note_map: note the map of the queue's partitions in one of them, unless a newer one is noted there.
-- KEYS[1] prefix
-- ARGV version number before partition max_length (setting value)...
-- setting: one that this partition gets with the map; an empty value takes it away.
-- Returns: the map that is noted then, as lib noted has it
-- Invariant: the noted version only grows; for one version, only that this same change is over (before: 0) is noted
-- later. After that, a caller that knows an older one is refused. Settings are set once for a version, with its note,
-- so no late copy of the call takes a newer setting back. Sending it again is harmless.
--@include begin
allow_when_full()
local noted = call('HGET', key('settings'), 'map') or '0:1:0'
local version, number, before = string.match(noted, '^(%d+):(%d+):(%d+):%d+:%d+$')
if not version or tonumber(number) > @MAX_PARTITIONS@ then version = 0 end -- another program has written it
local more = tonumber(ARGV[1]) - tonumber(version)
if more > 0 or more == 0 and number == ARGV[2] and before ~= '0' and ARGV[3] == '0' then
  noted = table.concat(ARGV, ':', 1, 5)
  call('HSET', key('settings'), 'map', noted)
  for i = 6, #ARGV, 2 do
    if ARGV[i + 1] == '' then
      call('HDEL', key('settings'), ARGV[i])
    else
      call('HSET', key('settings'), ARGV[i], ARGV[i + 1])
    end
  end
  call('DEL', key('mover'))
  -- When the change is over, no worker looks into a dropped partition, and none waits for the post of a queue with one.
  if ARGV[3] == '0' and tonumber(ARGV[4]) >= tonumber(ARGV[2]) then call('DEL', key('wake'), key('meta')) end
  if ARGV[2] == '1' and ARGV[3] == '0' then call('DEL', key('post')) end
end
return noted
