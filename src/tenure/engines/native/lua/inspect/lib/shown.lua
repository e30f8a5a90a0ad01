-- lib shown: one job as the inspector shows it.
-- Defines: shown. Redis: reads.
--@include task stopped

-- The row of a job that `find` has found: see show.lua.
local function shown(id, state, detail, record, claim)
  local tries = call('HGET', key('tries'), id) or ''
  if state == 'scheduled' then
    return { state, record, tries, detail, '', '', '', '', '' }
  elseif state == 'active' then
    local progress, asked = call('HGET', key('progress'), id) or '', call('HGET', key('cancelling'), id) or ''
    return { state, record, tries, '', detail, claim, '', progress, asked }
  elseif record then
    local stop = state == 'ready' and stop_of(record) or ''
    return { state, record, tries, '', '', '', '', '', '', stop }
  end
  return { state, call('HGET', key('kept'), id) or '', '', '', '', '', detail, '', '' }
end
