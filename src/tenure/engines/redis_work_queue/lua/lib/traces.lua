-- lib traces: `meta` is for workers. Other clients (`config.meta` is 0) do not create it.
local had_meta = call('EXISTS', key('meta')) == 1

local function without_traces(config, answer)
  if config.meta == 0 and not had_meta then call('DEL', key('meta')) end
  return answer
end
