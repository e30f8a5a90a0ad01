-- lib nested: keys of another queue that look like items of this one. The keys of a queue `shop:item:import` begin as
-- item keys of a queue `shop` do: its item 5 looks like an item `import:item:5`.
local nested_words = { item = true, lease = true, leased_by_session = true, done = true, passing = true }

-- Return whether an id is the rest of such a key: it has one of these words, and what precedes the word is the prefix
-- of a queue.
local function is_nested(id)
  local start = 1
  for _ = 1, @NESTED_MAX@ do
    local colon = string.find(id, ':', start, true)
    if not colon then break end
    if nested_words[string.sub(id, start, colon - 1)] then
      local inner = key('item:' .. string.sub(id, 1, start - 1))
      for list in string.gmatch('queue processing', '%a+') do
        if call('TYPE', inner .. list).ok == 'list' then return true end
      end
      if call('TYPE', inner .. 'meta').ok == 'hash' then return true end
    end
    start = colon + 1
  end
  return false
end
