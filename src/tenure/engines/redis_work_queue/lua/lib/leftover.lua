-- lib leftover: our records of items that other clients have completed.

-- Forget the leftovers in one page of each record, after the end of the last call. Returns whether there may be more.
local function forget_leftovers()
  local more = false
  for _, suffix in ipairs({ 'attempts', 'leased' }) do
    local field, gone = suffix .. '_cursor', false
    local cursor = call('HGET', key('meta'), field) or '0'
    local page = call('HSCAN', key(suffix), cursor, 'COUNT', 100)
    for i = 1, #page[2], 2 do
      local id = page[2][i]
      if call('EXISTS', key('item:' .. id)) == 0 then
        gone = true
        if suffix == 'attempts' then
          call('HDEL', key(suffix), id)
          forget_retry(id)
        else
          -- Other clients delete a lease under one of its names.
          local claim = claim_of(page[2][i + 1])
          if claim and wire_token(lease_of(id)) == claim.token then end_lease(id) end
          forget_claim(id, claim)
        end
      end
    end
    more = more or gone and page[1] ~= '0'
    if page[1] ~= cursor then call('HSET', key('meta'), field, page[1]) end
  end
  return more
end
