-- lib holding: what a worker holds.

-- The token under which a worker of Tenure holds an item; nil for none.
local function token_of(_, id)
  return string.match(call('HGET', key('leased'), id) or '', '^%d+')
end
