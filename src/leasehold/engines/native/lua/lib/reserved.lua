-- lib reserved: for which worker a job is kept that is to run alone.

-- The worker that gets ready to run a job of this queue alone, and does so still; nil for none.
local function reserved_by(time)
  local till, worker = string.match(call('HGET', key('meta'), 'reserved') or '', '^(%d+) (.*)$')
  if till and tonumber(till) > time and tonumber(till) <= time + @RESERVED_MS@ then
    return worker
  end
end
