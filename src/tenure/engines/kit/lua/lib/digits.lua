-- lib digits: the text of a long number. Tokens exceed the 14 digits that Lua prints of a number by itself.
local function digits(number) return string.format('%.0f', number) end
