-- lib tokens: long numbers that follow one another, as texts. Redis formats a long number slowly, so only the last
-- three digits are made for each.
local thousands, written

local function token_text(token)
  local low = token % 1000
  if thousands ~= token - low then
    thousands = token - low
    written = digits(thousands / 1000)
  end
  return written .. string.sub(1000 + low, 2)
end
