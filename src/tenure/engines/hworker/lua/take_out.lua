-- take_out: remove jobs from the right end of the list, or cancel them.
-- KEYS[1] prefix
-- ARGV session number config limit body
-- `body`: of the records of cancelled jobs; '' removes.
-- Returns: `1 ` when there are more, else `0 `, and how many were taken
-- Invariant: at most `limit` in one call.
--@include view answers transition
local session, number, limit, body = ARGV[1], ARGV[2], tonumber(ARGV[4]), ARGV[5]
local config = cjson.decode(ARGV[3])
local again = transition(session, number)
if again then return again end
local time = clock()
local looked, count = 0, 0
while looked < limit do
  local data = call('RPOP', waiting)
  if not data then break end
  local id = name_of(data)
  local known = counts.of(data)
  counts.drop(data)
  if body ~= '' and data ~= PHANTOM then
    if records.of(id) then id = redis.sha1hex(data) end
    finish(config, time, id, { d = data, w = '', n = 0, t = time, k = '', f = known.f, c = known.c, u = known.u },
      'cancelled', body)
  end
  looked, count = looked + 1, count + (data == PHANTOM and 0 or 1)
end
return remember(session, number, (looked == limit and '1 ' or '0 ') .. count)
