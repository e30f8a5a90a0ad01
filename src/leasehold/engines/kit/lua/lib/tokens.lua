-- lib tokens: long numbers that follow one another, as texts. Redis formats a long number slowly, so only the last three digits
-- are made for each.
local DIGITS = { [0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9' }
local thousands, written

local function last_digits(number)
  local ones = number % 10
  local tens = (number - ones) / 10 % 10
  return DIGITS[(number - ones - 10 * tens) / 100] .. DIGITS[tens] .. DIGITS[ones]
end

local function token_text(token)
  local low = token % 1000
  if thousands ~= token - low then
    thousands = token - low
    written = digits(thousands / 1000)
  end
  return written .. last_digits(low)
end

-- A function that answers the first word of the record of the next job of this call: when it was enqueued, in nanoseconds. The
-- last three digits are the number of the job, so the word grows from job to job; after a thousand jobs it is not unique.
local function words_from(micros)
  local text, number = digits(micros), -1
  return function()
    number = (number + 1) % 1000
    return text .. last_digits(number)
  end
end
