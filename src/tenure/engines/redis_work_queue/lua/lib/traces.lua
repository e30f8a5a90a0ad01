-- lib traces: `meta` is for workers. Clients that are none (`config.meta` is 0) leave no such key where there was none.
local had_meta = call('EXISTS', key('meta')) == 1

local function without_traces(config, answer)
  if config.meta == 0 and not had_meta then call('DEL', key('meta')) end
  return answer
end
