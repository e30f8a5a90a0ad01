-- lib names: the keys that originals know. The prefix of our keys is `<base>:tenure:q:<quoted queue>`, so base and
-- queue are read from it. The base has no colon. The prefix of the keys that belong to no queue is `<base>:tenure`.
--@include begin
local base = string.match(prefix, '^([^:]*):tenure')
local queue = string.gsub(string.match(prefix, ':tenure:q:(.*)$') or '', '%%(%x%x)',
  function(code) return string.char(tonumber(code, 16)) end)
local waiting, working = base .. ':queues:' .. queue, base .. ':workingProcesses:' .. queue

local function process_key(pid) return base .. ':processes:' .. pid end
local function marker_key(md5) return base .. ':uniqueTasks:' .. md5 end
local function shared_key(suffix) return base .. ':tenure:' .. suffix end

-- Wake all workers that wait for this queue, also the original's workers. The message is the number of tasks.
local function wake(count)
  if count > 0 then call('PUBLISH', base .. '_' .. queue .. '_work', count) end
end
