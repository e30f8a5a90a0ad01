-- lib number: one number of the engine, from their JSON.
local function number_in(text, name)
  local _, last = string.find(text, '"' .. name .. '":', 1, true)
  return tonumber(string.match(text, '^%d+', last + 1))
end
