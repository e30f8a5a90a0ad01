-- lib config: the engine's numbers, in the order of SixthConfig.as_argument.
local function configure(text)
  local words = {}
  for word in string.gmatch(text, '%S+') do
    words[#words + 1] = tonumber(word)
  end
  return {
    lease = words[1], grace = words[2], outage = words[3], amnesty = words[4],
    failed_ttl = words[8], failed_max = words[9],
  }
end
