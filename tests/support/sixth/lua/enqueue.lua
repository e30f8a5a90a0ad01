-- enqueue: add jobs to the end.
-- KEYS[1] prefix
-- ARGV session number (id payload task timeout retries)...
-- Returns: a string of one character a job: 1 added, 0 the id exists
-- Invariant: a job is in `jobs` and in the set of one state.
--@include begin answers jobs layout
local session, number = ARGV[1], ARGV[2]
local again = recall(session, number)
if again then return again end
check_types()
local letters, time = {}, clock()
for i = 3, #ARGV, 5 do
  local id, there = ARGV[i], call('HEXISTS', key('jobs'), ARGV[i]) == 1
  letters[#letters + 1] = there and '0' or '1'
  if not there then
    make_ready(id, {
      payload = ARGV[i + 1], task = ARGV[i + 2], timeout = ARGV[i + 3], retries = ARGV[i + 4],
      failures = 0, enqueued = time, number = count('order'),
    })
  end
end
note_layout()
return remember(session, number, table.concat(letters))
