-- complete: the short way to complete one item, when its lease is there as it was made.
-- KEYS[1] prefix
-- ARGV session number id token worker same
--   number: as of `take`
--   same: the data that was leased, or its hash, if there is more of it than @COMPARED_MAX@ bytes.
-- Returns: '1', or the answer that is remembered; or '', nothing was done, and `finish` is to be called.
-- Invariant: the same as in `finish`. All special cases are left to it.
local call, prefix, session, number, id = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local value, done, item = ARGV[4] .. ' ' .. ARGV[5], prefix .. ':done:' .. session, prefix .. ':item:' .. id
local old, new = prefix .. ':leased_by_session:' .. id, prefix .. ':lease:' .. id
local found = call('MGET', done, item, old, new)
local data, last = found[2], string.sub(found[1] or '', 1, 10)
if last == number then return string.sub(found[1], 12) end
if last > number or not data or found[3] ~= value or found[4] ~= value then return '' end
-- One item must not end with the lease of another.
if #data > @COMPARED_MAX@ then
--@part hash
  data = hash_of(data)
end
if data ~= ARGV[6] then return '' end
local leased, later = prefix .. ':leased', prefix .. ':later'
-- Second copies go too, see lib/claims. A list of Tenure's leases alone has no second copies, and the id is mostly near
-- an end.
local processing, how = prefix .. ':processing', '0'
local listed = call('LLEN', processing)
if listed > @COPIES_MAX@ or listed > @COPIES_FEW@ and listed <= call('HLEN', leased) + call('ZCARD', later) then
  how = call('LPOS', processing, id, 'MAXLEN', '1000') and '1' or '-1'
end
local attempts, passing, stray = prefix .. ':attempts', prefix .. ':passing', prefix .. ':stray'
local unleased, meta = prefix .. ':unleased', prefix .. ':meta'
local is_special = call('EXISTS', meta, attempts, passing, stray, unleased, later) > 0
local marked = is_special and call('EXISTS', attempts, passing, stray, unleased, later) > 0
if marked then
  -- This fails if the type is wrong, before anything has changed.
  call('HLEN', attempts)
  call('HLEN', passing)
  call('ZCARD', stray)
  call('ZCARD', unleased)
  call('ZCARD', later)
end
-- It adds nothing, so the rest runs at the memory limit as well.
if call('LREM', processing, how, id) == 0 then return '' end
-- The types of these two are not known. The record is there, unless another program has removed it.
local noted = redis.pcall('ZREM', prefix .. ':due', id)
local known = type(noted) == 'table' and noted or redis.pcall('HDEL', leased, id)
if known ~= 1 then
  call('LPUSH', processing, id)
  return known == 0 and '' or known
end
if marked then
  call('HDEL', attempts, id)
  call('HDEL', passing, id)
  call('ZREM', stray, id)
  call('ZREM', unleased, id)
  call('ZREM', later, id)
end
call('DEL', item, old, new)
if is_special and call('EXISTS', meta) == 1 then
  redis.pcall('HINCRBY', meta, 'completed', '1') -- another program's data there is no reason to fail: the item is done
end
call('SET', done, number .. ' 1', 'PX', '@DROPIN_ANSWER_MS@')
return '1'
