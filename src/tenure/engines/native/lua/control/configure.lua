-- configure: set something for a queue as a whole; an empty value takes the setting away.
-- KEYS[1] prefix
-- ARGV session number (setting value)...
-- Returns: all that is set, as `setting=value` between spaces.
-- Invariant: settings that are not named stay as they are.
--@include begin types answers wake transition
local session, number = ARGV[1], ARGV[2]
local again = transition(session, number)
if again then return again end
for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    call('HDEL', key('settings'), ARGV[i])
  else
    call('HSET', key('settings'), ARGV[i], ARGV[i + 1])
  end
  if ARGV[i] == 'paused' and ARGV[i + 1] == '' then wake_one() end
end
local set, words = call('HGETALL', key('settings')), {}
for i = 1, #set, 2 do words[#words + 1] = set[i] .. '=' .. set[i + 1] end
return remember(session, number, table.concat(words, ' '))
