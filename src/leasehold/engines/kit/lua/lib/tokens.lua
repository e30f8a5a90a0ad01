-- lib tokens: the tokens of a claim as texts. They follow one another and are long, and to write a long number is slow: only
-- the last three digits are made anew for each.
local DIGITS = { [0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9' }
local thousands, written

local function token_text(token)
  local low = token % 1000
  if thousands ~= token - low then
    thousands = token - low
    written = digits(thousands / 1000)
  end
  local ones = low % 10
  local tens = (low - ones) / 10 % 10
  return written .. DIGITS[(low - ones - 10 * tens) / 100] .. DIGITS[tens] .. DIGITS[ones]
end
