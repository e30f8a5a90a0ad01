-- enqueue: add tasks to the left end of a queue, and wake those that wait.
-- KEYS[1] prefix
-- ARGV session number (md5 task)...
-- `md5`: if the task is unique, its MD5, and its marker must not exist; else ''.
-- Returns: a string of one character a task: 1 added, 0 another one has the marker
-- Invariant: a unique task is in the queue exactly when this call wrote its marker.
--@include jobs answers layout
local session, number = ARGV[1], ARGV[2]
local again = recall(session, number)
if again then return again end
check_types()
local letters, added = {}, {}
for i = 3, #ARGV, 2 do
  local md5, task = ARGV[i], ARGV[i + 1]
  if md5 ~= '' and not call('SET', marker_key(md5), ' ', 'NX') then
    letters[#letters + 1] = '0'
  else
    letters[#letters + 1] = '1'
    added[#added + 1] = task
    if md5 ~= '' then
      call('ZREM', shared_key('markers'), md5)
      call('LREM', key('removed'), 0, task)
    end
  end
end
if #added > 0 then call('LPUSH', waiting, unpack(added)) end
wake(#added)
note_layout()
return remember(session, number, table.concat(letters))
