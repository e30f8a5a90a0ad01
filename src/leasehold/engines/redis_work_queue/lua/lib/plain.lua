-- lib plain: raw payloads in the queues of workers that have no handler for them. They are other clients' work, so they are
-- left to them: such a worker is noted in `passing:<worker>`, and its claims pass them by.

-- Whether this is no envelope for sure. The rest may be one: records.py knows.
local function is_plain(data)
  return not string.find(data, '^[ \t\r\n]*{') or not string.find(data, '"leasehold"', 1, true)
end
