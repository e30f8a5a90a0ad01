-- lib begun: the first word of a record says when its job was enqueued, in nanoseconds of which the last three digits are the
-- number of the job in its call: so it grows from job to job. Numbers are not formatted, which takes longer than to add a job.
local DIGITS = { '0', '1', '2', '3', '4', '5', '6', '7', '8', '9' }

-- A function that answers the word of the next job of this call; of a call of more than a thousand it is not unique.
local function words_from(micros)
  local text, ones, tens, hundreds = digits(micros), 0, 1, 1
  return function()
    ones = ones + 1
    if ones > 10 then ones, tens = 1, tens + 1 end
    if tens > 10 then tens, hundreds = 1, hundreds < 10 and hundreds + 1 or 10 end
    return text .. DIGITS[hundreds] .. DIGITS[tens] .. DIGITS[ones]
  end
end
