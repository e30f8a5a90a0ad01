-- complete: the short way to complete one item, when its lease is there as it was made.
-- KEYS[1] prefix
-- ARGV session number id token worker
-- Returns: '1', or the answer that is remembered; or '', nothing was done, and `settle` is to be called.
-- Invariant: that of `settle`. Whatever needs more than a look is left to it.
local call, prefix, session, number, id = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local value, done = ARGV[4] .. ' ' .. ARGV[5], prefix .. ':done:' .. session
call('DEL', prefix .. ':full') -- so that it runs at the memory limit as well
local last, answer = string.match(call('GET', done) or '', '^(%d+) (.*)$')
if last == number then
  return answer
end
local item, old, new = prefix .. ':item:' .. id, prefix .. ':leased_by_session:' .. id, prefix .. ':lease:' .. id
local found = call('MGET', item, old, new)
if tonumber(last or 0) > tonumber(number) or not found[1] or found[2] ~= value or found[3] ~= value then
  return ''
end
local claim = call('HGET', prefix .. ':leased', id)
-- A lease by hand is in no list of a worker's.
if not claim or not string.match(claim, '^' .. ARGV[4] .. ' %d+ %d+ [hn] ') then
  return ''
end
-- Where there is more in the list than our own leases, it is left to `settle` to look for second copies of this one.
local processing = prefix .. ':processing'
local listed, ours = call('LLEN', processing), call('HLEN', prefix .. ':leased')
if listed > ours and listed > ours + call('ZCARD', prefix .. ':later') then
  return ''
end
call('ZREM', prefix .. ':due', id)
if call('LREM', processing, '-1', id) == 0 then
  return ''
end
call('DEL', item, old, new)
call('HDEL', prefix .. ':leased', id)
if call('EXISTS', prefix .. ':attempts', prefix .. ':passing', prefix .. ':stray', prefix .. ':unleased') > 0 then
  call('HDEL', prefix .. ':attempts', id)
  call('HDEL', prefix .. ':passing', id)
  call('ZREM', prefix .. ':stray', id)
  call('ZREM', prefix .. ':unleased', id)
end
call('HINCRBY', prefix .. ':meta', 'completed', '1')
call('SET', done, number .. ' 1', 'PX', '@ANSWER_TTL_MS@')
return '1'
