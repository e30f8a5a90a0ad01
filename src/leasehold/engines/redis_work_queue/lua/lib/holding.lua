-- lib holding: what a worker holds.

-- Under which token an item is leased by one of ours; nil when it is not.
local function token_of(_, id)
  return string.match(call('HGET', key('leased'), id) or '', '^%d+')
end
