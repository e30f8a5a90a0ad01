-- lib words: the first word of the records of new jobs: when each was enqueued, in nanoseconds.

-- A function that answers the word of the next job of this call. The last three digits are the number of the job, so the word grows
-- from job to job; after a thousand jobs it is not unique. (Redis formats a long number slowly, so it is made once.)
local function words_from(micros)
  local text, number = digits(micros), 999
  return function()
    number = number < 1999 and number + 1 or 1000
    return text .. string.sub(number, 2)
  end
end
