-- lib words: the first word of the records of new jobs: when each was enqueued, in nanoseconds.
-- Defines: word_of.

-- The word of the nth job of a call that was made at a time in microseconds. The last three digits are the number of
-- the job, so the word grows from job to job; after a thousand jobs it is not unique. (Redis formats a long number
-- slowly, so the time is a text.)
local function word_of(micros, n) return micros .. string.format('%03d', n % 1000) end
